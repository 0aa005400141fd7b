"""Feedback by a judge: a model behind an OpenAI-compatible endpoint that grades episodes by a rubric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.errors import JudgeFailed
from trainer.rollout.completion import MOST_IN_A_ROW

from .sources import Feedback

if TYPE_CHECKING:
    from trainer.outcomes.source import OutcomeSource
    from trainer.types import Trajectory


class JudgeFeedback:
    """Implements ``FeedbackSource``. A judge that fails for an episode gives it no feedback."""

    def __init__(self, judge: OutcomeSource) -> None:
        self._judge = judge
        self._failed_in_a_row = 0

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        try:
            value = await self._judge.find_outcome(episode)
        except JudgeFailed as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= MOST_IN_A_ROW:
                raise JudgeFailed(
                    f"{self._failed_in_a_row} episodes in a row got no feedback: {error}"
                ) from error
            return None
        self._failed_in_a_row = 0
        return Feedback(value)

    async def close(self) -> None:
        await self._judge.close()
