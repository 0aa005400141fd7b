"""Ask the teacher's server for log-probabilities of episodes as they are played, before they are journaled.

They become a part of the trajectory, so that each is asked for once, whatever is restarted afterwards. An
episode whose tokens the teacher did not score has a failure of class ``teacher`` in place of a score, and is
not learned from. Held-out episodes are not scored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from trainer.errors import TeacherFailed, TrainerError
from trainer.rollout.failures import note_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config.rollout import SamplingConfig
    from trainer.rollout.attempts import AttemptPlayer
    from trainer.rollout.progress import ProgressMonitor
    from trainer.types import GroupSpec, Segment, Trajectory


MOST_IN_A_ROW = 32
"""Failures without a success in between after which the run ends: another episode would fail as well."""
_PHASE = "teacher"


class TokenScorer(Protocol):
    """Scores tokens."""

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        """Return a log-probability for each token, 0 for the first. Raises TeacherFailed, ConfigError."""
        ...


class TaughtPlayer:
    """Implements ``trainer.rollout.attempts.AttemptPlayer`` around another one."""

    def __init__(
        self, player: AttemptPlayer, teacher: TokenScorer, watch: ProgressMonitor, timeout_s: float
    ) -> None:
        """``timeout_s`` limits the scoring of one episode."""
        self._player = player
        self._teacher = teacher
        self._watch = watch
        self._timeout_s = timeout_s
        self._failed_in_a_row = 0

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode, and have it scored. Raises TrainerError when the teacher scores no episode."""
        trajectory = await self._player.play_episode(spec, member, sampling)
        held_out = spec.index < 0
        if held_out or not trajectory.scored:
            return trajectory
        self._watch.entered(trajectory.id, _PHASE)
        try:
            segments = await self._scored(trajectory.segments)
        except TeacherFailed as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= MOST_IN_A_ROW:
                raise TrainerError(
                    f"the teacher scored none of {self._failed_in_a_row} episodes in a row: {error}"
                ) from error
            return replace(trajectory, failure=note_of(error, _PHASE, trajectory.instance_id))
        self._failed_in_a_row = 0
        return replace(trajectory, segments=segments)

    async def _scored(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return tuple([await self._with_teacher(segment) for segment in segments])
        except TimeoutError:
            raise TeacherFailed(f"the teacher was not done within {self._timeout_s:g} s") from None

    async def _with_teacher(self, segment: Segment) -> Segment:
        if not any(segment.loss_mask):
            return segment
        logprobs = await self._teacher.score(segment.token_ids)
        sampled = (value for value, kept in zip(logprobs, segment.loss_mask, strict=True) if kept)
        return replace(segment, teacher_logprobs=tuple(sampled))
