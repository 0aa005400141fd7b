"""Compare two evaluations of the same tasks, with an interval of the difference.

Each task counts the same in both, however many of its episodes have a score: pooled over episodes, a model
that lost episodes of hard tasks to failures would look better than one that lost none. The bootstrap
resamples tasks, not episodes (paired bootstrap, Efron and Tibshirani 1993): episodes of one task are
correlated, and a task's difficulty cancels out of the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import DataError

from .intervals import DRAWS, Interval, bootstrap_ratios

if TYPE_CHECKING:
    from .results import EvaluationResult, TaskOutcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """The change on the tasks for which both evaluations have a score."""

    tasks: int
    before: float
    """Mean of the success rates of those tasks."""
    after: float
    interval: Interval
    """95% interval of the difference."""

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


def compare(
    before: EvaluationResult, after: EvaluationResult, *, draws: int = DRAWS, seed: int = 0
) -> Comparison:
    """Return the difference in success rate. Raises DataError when the two share no task."""
    pairs = _common(before, after)
    rates_P2 = np.array([[task.successes / task.episodes for task in pair] for pair in pairs])
    means = rates_P2.mean(0)
    drawn = bootstrap_ratios(rates_P2, np.ones_like(rates_P2), draws=draws, seed=seed)
    low, high = np.quantile(drawn[:, 1] - drawn[:, 0], (0.025, 0.975))
    return Comparison(len(pairs), float(means[0]), float(means[1]), Interval(float(low), float(high)))


def _common(before: EvaluationResult, after: EvaluationResult) -> list[tuple[TaskOutcome, TaskOutcome]]:
    earlier, later = _scored(before), _scored(after)
    pairs = [(earlier[name], task) for name, task in later.items() if name in earlier]
    if not pairs:
        raise DataError("the two evaluations have no scored task in common")
    return pairs


def _scored(result: EvaluationResult) -> dict[tuple[str, str, str], TaskOutcome]:
    """Return the tasks with a verdict by their names, which environments do not share."""
    scored = (task for task in result.tasks if task.episodes)
    return {(task.source, task.environment or result.environment, task.task_id): task for task in scored}
