"""Compare two evaluations of the same tasks, with an interval of the difference.

Each task counts the same in both, however many of its episodes have a score: pooled over episodes, a model
that lost episodes of hard tasks to failures would look better than one that lost none. The bootstrap
resamples tasks, not episodes (paired bootstrap, Efron and Tibshirani 1993): episodes of one task are
correlated, and a task's difficulty cancels out of the difference. Where it is the same for all tasks, as with
one task, the interval is that of ``equal_tasks_interval``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import DataError

from .intervals import DRAWS, Interval, are_equal, bootstrap_interval, equal_tasks_interval
from .task_keys import tasks_by_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .results import EvaluationResult


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
    return compare_rates(common_rates(before, after), draws=draws, seed=seed)


def compare_rates(rates_P2: NDArray[np.float64], *, draws: int = DRAWS, seed: int = 0) -> Comparison:
    """Return the difference between two success rates of the same tasks. Raises DataError without a task."""
    if not len(rates_P2):
        raise DataError("the two evaluations have no scored task in common")
    changes_P = rates_P2[:, 1] - rates_P2[:, 0]
    interval = (
        equal_tasks_interval(float(changes_P[0]), len(changes_P), least=-1.0)
        if are_equal(changes_P)
        else bootstrap_interval(changes_P, np.ones_like(changes_P), draws=draws, seed=seed)
    )
    first, second = rates_P2.mean(0)
    return Comparison(len(rates_P2), float(first), float(second), interval)


def common_rates(before: EvaluationResult, after: EvaluationResult) -> NDArray[np.float64]:
    """Return the success rates of each task for which both have a score, of shape (tasks, 2)."""
    earlier, later = tasks_by_key((before, after))
    pairs = [
        (earlier[key], task)
        for key, task in later.items()
        if task.episodes and key in earlier and earlier[key].episodes
    ]
    rates = [[task.successes / task.episodes for task in pair] for pair in pairs]
    return np.array(rates, dtype=np.float64).reshape(-1, 2)
