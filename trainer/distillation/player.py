"""Ask the teacher's server for log-probabilities of episodes as they are played, before they are journaled.

They become a part of the trajectory. An episode whose tokens the teacher did not score has a failure of class
``teacher`` in place of a score, and is not learned from. Held-out episodes are not scored.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from local_processes.waiting import Deadline
from trainer.errors import TeacherFailed
from trainer.rollout.completion import CompletedPlayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.rollout.attempts import AttemptPlayer
    from trainer.rollout.progress import ProgressMonitor
    from trainer.types import Segment, Trajectory


class TokenScorer(Protocol):
    """Scores tokens."""

    async def score(self, token_ids: Sequence[int], deadline: Deadline) -> tuple[float, ...]:
        """Return a log-probability for each token, 0 for the first, by the deadline.

        Raises TeacherFailed, ConfigError.
        """
        ...


def player_with_teacher(
    player: AttemptPlayer, teacher: TokenScorer, watch: ProgressMonitor, timeout_s: float, concurrency: int
) -> CompletedPlayer:
    """Return a player whose episodes a teacher scores, so many at a time; ``timeout_s`` limits one."""
    scored = TeacherScores(teacher, timeout_s, concurrency)
    ended = "the teacher scored none of {count} episodes in a row"
    return CompletedPlayer(player, scored.add_scores, TeacherFailed, "teacher", watch, ended)


class TeacherScores:
    """Adds a teacher's log-probabilities to episodes."""

    def __init__(self, teacher: TokenScorer, timeout_s: float, concurrency: int) -> None:
        self._teacher = teacher
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(concurrency)

    async def add_scores(self, trajectory: Trajectory) -> Trajectory:
        """Return the episode with log-probabilities. Raises TeacherFailed, ConfigError."""
        return replace(trajectory, segments=await self._scored(trajectory.segments))

    async def _scored(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        async with self._slots:
            # It begins with the first request, not with the wait for a slot.
            deadline = Deadline.after(self._timeout_s)
            return tuple([await self._with_teacher(segment, deadline) for segment in segments])

    async def _with_teacher(self, segment: Segment, deadline: Deadline) -> Segment:
        if not any(segment.loss_mask):
            return segment
        logprobs = await self._teacher.score(segment.token_ids, deadline)
        sampled = (value for value, kept in zip(logprobs, segment.loss_mask, strict=True) if kept)
        return replace(segment, teacher_logprobs=tuple(sampled))
