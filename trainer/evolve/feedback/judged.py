"""Feedback by a judge: a model behind an OpenAI-compatible endpoint that grades episodes by a rubric."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from trainer.errors import JudgeFailed
from trainer.rollout.streak import FailureStreak

from .sources import Feedback

if TYPE_CHECKING:
    from trainer.outcomes.source import OutcomeSource
    from trainer.types import Trajectory

_PAUSE_S = 30.0
"""Time before an episode is judged again during an outage."""


class JudgeFeedback:
    """Implements ``FeedbackSource``. A judge that fails for an episode gives it no feedback.

    All episodes of an iteration are judged at the same time, and would be without feedback after seconds
    while the judge's server restarts. Where many have failed in a row, the others wait for it.
    """

    def __init__(
        self,
        judge: OutcomeSource,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._judge = judge
        self._failures = FailureStreak(now)
        self._sleep = sleep

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        while True:
            try:
                value = await self._judge.find_outcome(episode)
            except JudgeFailed as error:
                failures = self._failures
                failures.add_failure()
                if failures.is_final:
                    raise JudgeFailed(
                        f"{failures.count} requests in a row got no feedback, over {failures.seconds:.0f} s: "
                        f"{error}"
                    ) from error
                if not failures.is_outage:
                    return None
                await self._sleep(_PAUSE_S)
            else:
                self._failures.add_success()
                return Feedback(value)

    async def close(self) -> None:
        await self._judge.close()
