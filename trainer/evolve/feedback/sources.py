"""The interface of feedback on explored episodes, and the feedback that episodes bring along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainer.types import Trajectory


@dataclass(frozen=True, slots=True)
class Feedback:
    """A source's opinion of an episode."""

    value: float
    """The greater, the better; finite."""
    comment: str = ""


class FeedbackSource(Protocol):
    """Gives feedback on played episodes."""

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        """Return the feedback; None where the source has none for this episode.

        Raises TrainerError where it could give none for any.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class EnvironmentFeedback:
    """Implements ``FeedbackSource`` with the environment's score."""

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        return None if episode.score is None else Feedback(episode.score)

    async def close(self) -> None:
        pass


class RewardFeedback:
    """Implements ``FeedbackSource`` with the outcome of the run's ``reward``: a judge, a function of a plugin
    or a reward model, which gave it when the episode was played.
    """

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        return None if episode.outcome is None else Feedback(episode.outcome)

    async def close(self) -> None:
        pass
