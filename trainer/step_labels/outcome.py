"""Labels by back-tracing: each step gets the episode's outcome, discounted by its distance from the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.advantage.step_estimation import traced_back
from trainer.errors import LabelFailed
from trainer.recorded.episode_parts import later_turns, part_key

from .labels import StepLabels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config.step_labels import OutcomeRule
    from trainer.recorded.types import RecordedEpisode


class OutcomeLabeller:
    """Implements ``StepLabeller`` with the recorded outcome."""

    def __init__(self, rule: OutcomeRule, episodes: Sequence[RecordedEpisode]) -> None:
        """``episodes`` are those to label: the distance to the end counts the turns of later records."""
        self._rule = rule
        self._later = later_turns(episodes)

    async def label_steps(self, episode: RecordedEpisode) -> StepLabels:
        if episode.failure_class:
            raise LabelFailed(
                f"{episode.origin}: a failure ended the episode, so that it has no outcome",
                episode.failure_class,
            )
        by_success = self._rule.outcome == "success" and episode.success is not None
        outcome = float(episode.success or False) if by_success else episode.score
        if outcome is None:
            raise LabelFailed(f"{episode.origin}: the episode was never graded", "ungraded")
        if not 0 <= outcome <= 1:
            raise LabelFailed(
                f"{episode.origin}: the score {outcome:g} is not from 0 to 1; use rule.outcome=success",
                "ungraded",
            )
        skipped = episode.skipped_turns
        steps = [number for number in range(len(episode.turns)) if number not in skipped]
        to_the_end = len(steps) + self._later[part_key(episode)]
        labels = dict(zip(steps, traced_back(outcome, to_the_end, self._rule.discount), strict=False))
        by_turn = tuple(labels.get(number) for number in range(len(episode.turns)))
        return StepLabels({self._rule.dimension: by_turn}, no_steps=skipped)
