"""Figures of a run's latest rollouts: what failures cost, how old the samples are, which groups are used.

All figures come from the trainer's metrics; one that the run does not record has no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .curves import Metrics


_STEPS = 20
"""Latest steps that the means are over."""
_FAILURES = "failures/"
_LOST, _TRAINED = "lost", "trained"
"""Figures that are computed here and are not metrics."""
_ON_FAILURES = {
    "reward/mean": "mean reward of the graded episodes",
    "reward/with_failures": "mean reward, with 0 for failed episodes",
    _LOST: "difference, lost to failures",
    "episodes/attempts": "instances per episode",
}
_ON_SAMPLES = {
    "staleness/mean": "updates between sampling and training, mean over tokens",
    "staleness/max": "the same, of the oldest token",
    "staleness/versions": "versions of the weights that sampled",
    "time/ready": "seconds between the end of a group and its batch",
    _TRAINED: "groups trained on",
    "replay/groups": "replayed groups",
    "groups/dropped": "groups dropped",
    "groups/flat": "of these, all rewards equal",
    "groups/failed": "of these, too few verdicts",
    "groups/left_over": "spare groups that grew too old",
    "time/take": "seconds of waiting for the batch",
    "engine/idle": "share of time in which the engines were idle",
}


@dataclass(frozen=True, slots=True)
class RolloutFigure:
    """One figure of the latest steps."""

    label: str
    metric: str
    """The metric that it is; empty for one that is computed here."""
    last: float | None
    """The value at the last step."""
    mean: float
    """The mean over the steps that have it."""


@dataclass(frozen=True, slots=True)
class RolloutSummary:
    """The latest steps of reinforcement learning."""

    first_step: int
    last_step: int
    failures: tuple[RolloutFigure, ...]
    """Rewards with and without failed episodes, and failed attempts by class."""
    samples: tuple[RolloutFigure, ...]
    """Staleness, and groups that were used and dropped."""


def rollout_summary(metrics: Metrics, groups: Mapping[int, Sequence[int]]) -> RolloutSummary | None:
    """Return the summary of a run; None if it has no rollouts. ``groups`` are those trained on, by step."""
    played = [step for step, values in metrics.items() if "reward/mean" in values][-_STEPS:]
    if not played:
        return None
    classes = sorted({name for step in played for name in metrics[step] if name.startswith(_FAILURES)})
    # The trainer writes the classes that occurred in a step, so that the others had no failure.
    none = dict.fromkeys(classes, 0.0)
    rows = [{**none, **metrics[step], **_computed(metrics[step], groups.get(step))} for step in played]
    labels = {name: f"failed attempts: {name.removeprefix(_FAILURES)}" for name in classes}
    return RolloutSummary(
        played[0], played[-1], _figures(rows, {**_ON_FAILURES, **labels}), _figures(rows, _ON_SAMPLES)
    )


def _computed(values: Mapping[str, float], trained: Sequence[int] | None) -> dict[str, float]:
    found: dict[str, float] = {}
    if "reward/with_failures" in values:
        found[_LOST] = values["reward/mean"] - values["reward/with_failures"]
    if trained is not None:
        found[_TRAINED] = float(len(trained))
    return found


def _figures(rows: Sequence[Mapping[str, float]], labels: Mapping[str, str]) -> tuple[RolloutFigure, ...]:
    return tuple(
        RolloutFigure(
            label,
            "" if name in (_LOST, _TRAINED) else name,
            rows[-1].get(name),
            fmean(row[name] for row in rows if name in row),
        )
        for name, label in labels.items()
        if any(name in row for row in rows)
    )
