"""Episodes played by several processes: templates, tokens and calls of the service cost CPU, turn by turn.

The batch producer keeps the journal, the sampler, the slots and the batches; a worker plays whole episodes
and sends back their trajectories. A worker that dies or hangs is a failure of the episodes that it played,
which are played again by the others until it is back. Knows no Ray.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trainer.errors import EngineLost
from trainer.rollout.failures import note_of
from trainer.types import StopReason, Trajectory

if TYPE_CHECKING:
    from trainer.config.rollout import SamplingConfig
    from trainer.rollout.progress import EpisodePhase, ProgressMonitor
    from trainer.types import GroupSpec


logger = logging.getLogger(__name__)

_LOOK_S = 1.0
_HUNG_S = 60.0
_BACK_S = 600.0


class EpisodeWorker(Protocol):
    """One process that plays. Methods raise EngineLost when it is not there."""

    name: str

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode."""
        ...

    def prepare_instance(self, spec: GroupSpec, member: int) -> None:
        """Create an episode's instance before it may begin."""
        ...

    async def phases(self) -> Sequence[EpisodePhase]:
        """Phases of all episodes under way."""
        ...

    async def close(self) -> None:
        """Let go of what it holds and end it."""
        ...

    def kill(self) -> None:
        """End it, so that another is started."""
        ...


class WorkerPlayer:
    """Implements ``trainer.rollout.attempts.AttemptPlayer`` over workers.

    The one with the fewest episodes plays.

    Args:
        workers: those that play.
        watch: gets the phases of their episodes.
        look_s: seconds between two looks at a worker.
        hung_s: seconds without an answer after which a worker is ended.
        back_s: seconds that a worker may take to begin, and an episode to find one when all are lost.
    """

    def __init__(
        self,
        workers: Sequence[EpisodeWorker],
        watch: ProgressMonitor,
        *,
        look_s: float = _LOOK_S,
        hung_s: float = _HUNG_S,
        back_s: float = _BACK_S,
    ) -> None:
        self._workers = tuple(workers)
        self._watch = watch
        self._look_s = look_s
        self._hung_s = hung_s
        self._back_s = back_s
        self._playing: Counter[str] = Counter()
        self._lost: set[str] = set()
        self._someone = asyncio.Event()
        self._someone.set()
        self._prepared: dict[tuple[int, int], EpisodeWorker] = {}
        self._looking: list[asyncio.Task[None]] = []

    @property
    def lost(self) -> frozenset[str]:
        """Names of the workers that failed and have not answered since."""
        return frozenset(self._lost)

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode of a group; the loss of its worker is a note on it."""
        if not self._looking:
            self._looking = [asyncio.create_task(self._look(worker)) for worker in self._workers]
        try:
            worker = await self._chosen(spec, member)
            return await self._played(worker, spec, member, sampling)
        except EngineLost as error:
            return Trajectory(
                id=spec.trajectory_id(member),
                task=spec.task,
                seed=spec.seed + member,
                segments=(),
                stop=StopReason.FAILED,
                failure=note_of(error, "create", ""),
            )

    def prepare_instance(self, spec: GroupSpec, member: int) -> None:
        """Have the instance created by the worker that will play the episode."""
        worker = self._workers[(spec.index * spec.size + member) % len(self._workers)]
        if worker.name not in self._lost:
            self._prepared[spec.index, member] = worker
            worker.prepare_instance(spec, member)

    async def close(self) -> None:
        """End all workers."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(
            *self._looking, *(worker.close() for worker in self._workers), return_exceptions=True
        )

    async def _chosen(self, spec: GroupSpec, member: int) -> EpisodeWorker:
        """Return the worker that has the episode's instance, or else the one that plays the fewest."""
        prepared = self._prepared.pop((spec.index, member), None)
        if prepared is not None and prepared.name not in self._lost:
            return prepared
        try:
            async with asyncio.timeout(self._back_s):
                # Once it has come back, a worker may be lost again before this wait ends.
                while not (there := [each for each in self._workers if each.name not in self._lost]):
                    await self._someone.wait()
        except TimeoutError:
            names = ", ".join(sorted(self._lost))
            raise EngineLost(f"no episode worker has come back in {self._back_s:g} s: {names}") from None
        return min(there, key=lambda worker: self._playing[worker.name])

    async def _played(
        self, worker: EpisodeWorker, spec: GroupSpec, member: int, sampling: SamplingConfig
    ) -> Trajectory:
        self._playing[worker.name] += 1
        try:
            return await worker.play_episode(spec, member, sampling)
        except EngineLost:
            self._miss(worker)
            raise
        finally:
            self._playing[worker.name] -= 1

    async def _look(self, worker: EpisodeWorker) -> None:
        """Report to the watch what the worker's episodes do, and end a worker that does not answer."""
        begun = False
        while True:
            try:
                begun = await self._follow(worker, self._hung_s if begun else self._back_s)
            except Exception:
                begun = False
                logger.exception("the look at %s failed; it is repeated", worker.name)
            await asyncio.sleep(self._look_s)

    async def _follow(self, worker: EpisodeWorker, limit_s: float) -> bool:
        """Ask one worker for the phases of its episodes; return whether it answered in time."""
        try:
            async with asyncio.timeout(limit_s):
                phases = await worker.phases()
        except EngineLost:
            self._miss(worker)
            return False
        except TimeoutError:
            self._miss(worker)
            worker.kill()
            return False
        self._lost.discard(worker.name)
        self._someone.set()
        for each in phases:
            self._watch.follow(each)
        return True

    def _miss(self, worker: EpisodeWorker) -> None:
        """Give a worker nothing more to play until it answers again.

        While an actor is restarted its calls fail at once, so it would always have the fewest episodes and
        would use up the attempts of all of them.
        """
        self._lost.add(worker.name)
        if len(self._lost) == len(self._workers):
            self._someone.clear()
