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

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    rates_P2 = common_rates(before, after)
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
    earlier, later = _scored(before), _scored(after)
    pairs = [(earlier[name], task) for name, task in later.items() if name in earlier]
    rates = [[task.successes / task.episodes for task in pair] for pair in pairs]
    return np.array(rates, dtype=np.float64).reshape(-1, 2)


def _scored(result: EvaluationResult) -> dict[tuple[str, str, str], TaskOutcome]:
    """Return the tasks with a verdict by their names, which environments do not share."""
    scored = (task for task in result.tasks if task.episodes)
    return {(task.source, task.environment or result.environment, task.task_id): task for task in scored}
