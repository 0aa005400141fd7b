"""Play an episode, retrying in fresh instances as its strategy allows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from trainer.errors import ConfigError

from .strategies import Remedy, remedy, retry_wait_s

if TYPE_CHECKING:
    from trainer.config import RolloutConfig, SamplingConfig
    from trainer.types import FailureNote, GroupSpec, Trajectory

    from .backpressure import Slots
    from .progress import ProgressMonitor


logger = logging.getLogger(__name__)


class AttemptPlayer(Protocol):
    """Plays one episode in one fresh instance."""

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode. A failure is recorded on the trajectory, not raised."""
        ...


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """The last attempt, and the failures of all attempts."""

    trajectory: Trajectory
    failures: tuple[FailureNote, ...]
    """Failures of all attempts, including the last one."""
    task_broken: bool = False


class Attempts:
    """Plays episodes within the limit of slots, with retries."""

    def __init__(
        self,
        player: AttemptPlayer,
        config: RolloutConfig,
        slots: Slots,
        watch: ProgressMonitor,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._player = player
        self._config = config
        self._slots = slots
        self._watch = watch
        self._sleep = sleep

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> PlayedEpisode:
        """Play one episode. Raises ConfigError when the service rejects the request."""
        failures: list[FailureNote] = []
        while True:
            trajectory = await self._attempt(spec, member, sampling)
            attempt = len(failures) + 1
            trajectory = replace(trajectory, attempts=attempt)
            if trajectory.failure is None:
                return PlayedEpisode(trajectory, tuple(failures))
            failures.append(trajectory.failure)
            logger.info("episode %s, attempt %d: %s", trajectory.id, attempt, _sentence(trajectory.failure))
            match remedy(trajectory.failure, attempt, self._config.strategy):
                case Remedy.RETRY:
                    wait_s = retry_wait_s(self._config.strategy, attempt, trajectory.failure.retry_after_s)
                    await self._sleep(wait_s)
                case Remedy.TRAIN:
                    return PlayedEpisode(_unsolved(trajectory), tuple(failures))
                case Remedy.GIVE_UP:
                    return PlayedEpisode(trajectory, tuple(failures))
                case Remedy.DROP_TASK:
                    return PlayedEpisode(trajectory, tuple(failures), task_broken=True)
                case Remedy.RAISE:
                    raise ConfigError(f"episode {trajectory.id}: {_sentence(trajectory.failure)}")

    async def _attempt(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        name = spec.trajectory_id(member)
        verdict = False
        # For each attempt: while this episode waits for its next one, another plays.
        await self._slots.acquire()
        try:
            self._watch.entered(name, "create")
            trajectory = await self._player.play_episode(spec, member, sampling)
            verdict = trajectory.scored
            if trajectory.failure is not None:
                self._watch.troubled(f"episode {name}: {_sentence(trajectory.failure)}")
            return trajectory
        finally:
            self._watch.episode_ended(name, verdict=verdict)
            self._slots.release()


def _unsolved(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, failure=None, score=0.0, success=False)


def _sentence(failure: FailureNote) -> str:
    return f"{failure.failure_class} ({failure.code}) in {failure.phase}: {failure.detail}"
