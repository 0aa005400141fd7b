"""Complete episodes as they are played, before anything is journaled: with rewards, or a teacher's scores.

What is added becomes a part of the trajectory, so that it is found once, whatever is restarted afterwards. An
episode that cannot be completed has a failure in place of a score: it is not learned from. Held-out episodes
are left as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainer.errors import RewardFailed, RunEnded, TeacherFailed

from .failures import note_of

if TYPE_CHECKING:
    from trainer.config.rollout import SamplingConfig
    from trainer.types import GroupSpec, Trajectory

    from .attempts import AttemptPlayer
    from .progress import ProgressMonitor

MOST_IN_A_ROW = 32
"""Failures without a success in between after which the run ends: another episode would fail as well."""
FAILING_S = 180.0
"""Time that they span at least. Episodes that end together fail together while a server restarts."""


@dataclass(slots=True)
class CompletedPlayer:
    """Implements ``trainer.rollout.attempts.AttemptPlayer`` around another one."""

    player: AttemptPlayer
    complete: Callable[[Trajectory], Awaitable[Trajectory]]
    """Returns the completed episode; raises ``failure`` for this one, RunEnded to end the run."""
    failure: type[RewardFailed] | type[TeacherFailed]
    phase: str
    watch: ProgressMonitor
    ended: str
    """The reason why the run ends, with ``{count}`` for the episodes in a row that failed."""
    _failed_in_a_row: int = field(default=0, init=False)
    _failing_since: float = field(default=0.0, init=False)

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode, and complete it. Raises RunEnded when no episode can be completed."""
        trajectory = await self.player.play_episode(spec, member, sampling)
        held_out = spec.index < 0
        if held_out or not trajectory.scored:
            return trajectory
        self.watch.entered(trajectory.id, self.phase)
        try:
            completed = await self.complete(trajectory)
        except self.failure as error:
            self._count_failure(error)
            return replace(trajectory, failure=note_of(error, self.phase, trajectory.instance_id))
        self._failed_in_a_row = 0
        return completed

    def _count_failure(self, error: RewardFailed | TeacherFailed) -> None:
        """Raise RunEnded when enough episodes have failed in a row, for long enough."""
        now = self.watch.now()
        if not self._failed_in_a_row:
            self._failing_since = now
        self._failed_in_a_row += 1
        failing_s = now - self._failing_since
        if self._failed_in_a_row >= MOST_IN_A_ROW and failing_s >= FAILING_S:
            ended = self.ended.format(count=self._failed_in_a_row)
            raise RunEnded(f"{ended}, over {failing_s:.0f} s: {error}") from error
