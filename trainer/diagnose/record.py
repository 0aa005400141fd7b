"""The record of a run that rules read: its metrics by step, its evaluations, and a sample of its groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter, ValidationError

from trainer.report.episodes import chosen_groups
from trainer.report.run_data import read_run_data
from trainer.types import TrajectoryGroup

if TYPE_CHECKING:
    from trainer.report.run_data import RunData
    from trainer.types import Turn


LEAST_STEPS = 8
"""Steps that a metric must have before its course is judged."""
_EPISODES = 400
_GROUPS: TypeAdapter[TrajectoryGroup] = TypeAdapter(TrajectoryGroup)


@dataclass(frozen=True, slots=True)
class Trend:
    """The course of a metric over the steps of reinforcement learning."""

    early: float
    """Mean of the first quarter of the steps, at least three."""
    late: float
    """Mean of the last quarter."""
    best: float
    """Greatest mean of a stretch of that length."""
    error: float
    """Standard error of the difference of two such means, from the scatter of neighbouring steps."""

    @property
    def change(self) -> float:
        """Late minus early."""
        return self.late - self.early

    @property
    def rises(self) -> bool:
        """Whether it rose by more than two standard errors."""
        return self.change > 2 * self.error


@dataclass(frozen=True, slots=True)
class MeasuredReward:
    """The mean reward of one step."""

    mean: float
    error: float
    """Standard error, from the scatter of its episodes."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the rules see it."""

    run: RunData
    groups: tuple[TrajectoryGroup, ...]
    """A sample of the groups that were trained on, from all over the run, in their order."""

    def values(self, name: str) -> tuple[float, ...]:
        """Return a metric's values over the steps of reinforcement learning that have it."""
        return tuple(metrics[name] for metrics in self.run.learning.values() if name in metrics)

    def recent(self, name: str) -> float | None:
        """Return the mean of a metric's last quarter of finite values, at least three; None without any."""
        finite = [value for value in self.values(name) if math.isfinite(value)]
        last = finite[-max(3, len(finite) // 4) :]
        return sum(last) / len(last) if last else None

    def sums_by_name(self, prefix: str) -> dict[str, float]:
        """Return the sums of all metrics with a prefix, by the rest of their names."""
        sums: dict[str, float] = {}
        for metrics in self.run.learning.values():
            for name, value in metrics.items():
                if name.startswith(prefix) and math.isfinite(value):
                    key = name.removeprefix(prefix)
                    sums[key] = sums.get(key, 0.0) + value
        return sums

    def trend(self, name: str) -> Trend | None:
        """Return the course of a metric; None with fewer than ``LEAST_STEPS`` finite values."""
        return trend_of(self.values(name))

    def first_reward(self) -> MeasuredReward | None:
        """Return the reward of the first step, which no update has changed yet; None without its scatter."""
        first = next((each for each in self.run.learning.values() if "reward/mean" in each), {})
        mean, deviation = first.get("reward/mean", math.nan), first.get("reward/std", math.nan)
        episodes = first.get("episodes/count", 0.0)
        if not episodes or not math.isfinite(mean) or not deviation > 0:
            return None
        return MeasuredReward(mean, deviation / math.sqrt(episodes))

    def turns(self) -> list[Turn]:
        """Return all turns of the sampled episodes."""
        return [turn for group in self.groups for each in group.trajectories for turn in each.turns]


def trend_of(values: Sequence[float]) -> Trend | None:
    """Return the course of some values in order; None with fewer than ``LEAST_STEPS`` finite ones."""
    finite = np.array([value for value in values if math.isfinite(value)])
    if len(finite) < LEAST_STEPS:
        return None
    width = max(3, len(finite) // 4)
    means = np.convolve(finite, np.full(width, 1 / width), mode="valid")
    # Differences of neighbours have twice the variance of the noise, and hardly any of the trend.
    noise = float(np.std(np.diff(finite)) / math.sqrt(2))
    error = noise * math.sqrt(2 / width)
    return Trend(float(means[0]), float(means[-1]), float(means.max()), error)


def read_record(folder: Path) -> RunRecord:
    """Return the record of a run. Raises DataError when the folder is not a run's."""
    run = read_run_data(folder)
    parsed, _ = chosen_groups(folder / "trajectories.jsonl", _EPISODES)
    groups = []
    for tree in parsed:
        try:
            groups.append(_GROUPS.validate_python(tree))
        except ValidationError:
            continue  # written by another version of the trainer
    return RunRecord(run, tuple(groups))
