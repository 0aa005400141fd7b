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


class StepLabeller(Protocol):
    """Labels the steps of episodes; used by many at a time."""

    async def label_steps(self, episode: RecordedEpisode) -> StepLabels:
        """Return the labels of an episode's steps.

        Raises LabelFailed where it has none, and other TrainerErrors where no episode would have any.
        """
        ...


def with_labels(episode: RecordedEpisode, found: StepLabels) -> RecordedEpisode:
    """Return the episode with the labels, beside those of other dimensions that it has.

    Its step rewards become the mean over the new dimensions, unless a step has no label.
    """
    labels = {**episode.step_labels, **found.labels}
    steps = list(zip(*found.labels.values(), strict=True))
    means = [_mean(step) for step in steps]
    known = tuple(mean for mean in means if mean is not None)
    rewards = known if len(known) == len(means) else episode.step_rewards
    return replace(episode, step_labels=labels, step_rewards=rewards)


def _mean(step: tuple[float | None, ...]) -> float | None:
    known = [label for label in step if label is not None]
    return sum(known) / len(known) if len(known) == len(step) else None
