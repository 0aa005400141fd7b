"""The interface of feedback on explored episodes, and the feedback that episodes bring along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trainer.reward.learned import LEARNED, PROCESS, learned_score, process_rewards

if TYPE_CHECKING:
    from trainer.config import RewardConfig
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
    """Implements ``FeedbackSource`` with what the run's ``reward`` adds to the environment's.

    These are the outcome by a function or a judge, the score of a reward model and the rewards of steps by
    one, each with its weight in ``reward``, of the agent's turns alone. The episode got them when it was
    played.
    """

    def __init__(self, reward: RewardConfig) -> None:
        self._reward = reward

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        parts = self._parts(episode)
        given = [part for part in parts if part is not None]
        return Feedback(sum(given)) if given and len(given) == len(parts) else None

    async def close(self) -> None:
        pass

    def _parts(self, episode: Trajectory) -> list[float | None]:
        """Return the part of each configured source; None where it is missing."""
        episode = episode.without_counterpart()
        reward, parts = self._reward, list[float | None]()
        if reward.kind != "environment":
            outcome = episode.outcome
            parts.append(None if outcome is None else reward.outcome_weight * outcome)
        if reward.learned is not None:
            scored = any(LEARNED in turn.terms for turn in episode.turns)
            parts.append(reward.learned.weight * learned_score(episode) if scored else None)
        if reward.process is not None:
            scored = any(name.startswith(PROCESS) for turn in episode.turns for name in turn.terms)
            steps = sum(process_rewards(episode, reward.process))
            parts.append(reward.process.weight * steps if scored else None)
        return parts
