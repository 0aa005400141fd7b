"""Keep forks of an episode's instance, so that another attempt begins in the middle of this one.

A fork is made before a turn, and is held with the turns up to there. What is not begun from is released.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_client import SandboxError
from trainer.errors import Stalled

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode
    from sandbox_contract.episodes import Observation, StepResult
    from trainer.engines.generation import Generation

    from .instances import EpisodeInstances
    from .phases import EpisodePhases

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """A turn and its step."""

    generation: Generation
    sampling_s: float
    result: StepResult
    sandbox_s: float


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A live copy of an instance, and all that was played in it."""

    episode: AsyncEpisode
    opening: Observation
    turns: tuple[PlayedTurn, ...]


class TurnForks:
    """Forks of one episode's instance before some of its turns. Close it, whatever happens."""

    def __init__(self, turn: int, instances: EpisodeInstances, fork_s: float) -> None:
        """Hold no fork yet.

        Args:
            turn: the turn to begin from, from 0; a negative one counts from the end.
            instances: release the forks.
            fork_s: time limit of a fork.
        """
        self._turn = turn
        self._instances = instances
        self._fork_s = fork_s
        self._held: deque[ForkPoint] = deque()
        self._most = max(1, -turn)
        self.problem = ""
        """Reason that an instance could not be forked; empty where none failed."""

    async def before_turn(
        self,
        episode: AsyncEpisode,
        opening: Observation,
        turns: Sequence[PlayedTurn],
        phases: EpisodePhases,
    ) -> None:
        """Fork the instance before its next turn, where another attempt may begin there.

        An instance that cannot be forked is noted: the episode goes on.
        """
        if self.problem or 0 <= self._turn < len(turns):
            return
        try:
            (copy,) = await phases.within("create", self._fork_s, episode.fork())
        except (SandboxError, Stalled) as error:
            self.problem = str(error)
            logger.warning("%s cannot be forked: %s", episode.instance_id, error)
            return
        self._held.append(ForkPoint(copy, opening, tuple(turns)))
        if len(self._held) > self._most:
            self._instances.release(self._held.popleft().episode)

    def take_fork(self) -> ForkPoint | None:
        """Return the fork to begin from, which the caller then owns; None without one.

        In an episode with fewer turns it is the one nearest to the wanted turn.
        """
        return self._held.popleft() if self._held and not self.problem else None

    def close(self) -> None:
        """Start to release the forks that were not taken."""
        while self._held:
            self._instances.release(self._held.popleft().episode)
