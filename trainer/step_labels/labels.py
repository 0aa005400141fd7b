"""The labels of one episode's steps, and the interface of what gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainer.recorded.types import RecordedEpisode


@dataclass(frozen=True, slots=True)
class StepLabels:
    """The labels of an episode's steps."""

    labels: Mapping[str, tuple[float | None, ...]]
    """By dimension, one for each of the assistant's messages, from 0 to 1; None for a step without one."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Steps without a label, by the class of the failure."""
    no_steps: frozenset[int] = frozenset()
    """Numbers of the assistant's messages that are no steps and have no labels: examples that the
    environment showed, and others that carry no loss.
    """

    def step_means(self) -> tuple[float | None, ...]:
        """Return the mean over the dimensions for each step; None where one has no label."""
        steps = zip(*self.labels.values(), strict=True)
        return tuple(_mean(step) for number, step in enumerate(steps) if number not in self.no_steps)


class StepLabeller(Protocol):
    """Labels the steps of episodes; used by many at a time."""

    async def label_steps(self, episode: RecordedEpisode) -> StepLabels:
        """Return the labels of an episode's steps.

        Raises LabelFailed where it has none, and other TrainerErrors where no episode would have any.
        """
        ...


def with_labels(episode: RecordedEpisode, found: StepLabels) -> RecordedEpisode:
    """Return the episode with the labels, beside those of other dimensions that it has.

    Its step rewards become the mean over the new dimensions. Where a step has no label it has none: earlier
    rewards, such as the environment's, cannot be compared with those of other labelled episodes.
    """
    means = found.step_means()
    known = tuple(mean for mean in means if mean is not None)
    return replace(
        episode,
        step_labels={**episode.step_labels, **found.labels},
        step_rewards=known if len(known) == len(means) else (),
    )


def _mean(step: tuple[float | None, ...]) -> float | None:
    known = [label for label in step if label is not None]
    return sum(known) / len(known) if len(known) == len(step) else None
