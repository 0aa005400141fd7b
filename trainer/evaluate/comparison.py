"""Compare two evaluations of the same tasks, with an interval of the difference.

The bootstrap resamples tasks, not episodes (paired bootstrap, Efron and Tibshirani 1993): episodes of one
task are correlated, and a task's difficulty cancels out of the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import DataError

from .intervals import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .results import EvaluationResult, TaskOutcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """The change on the tasks for which both evaluations have a score."""

    tasks: int
    before: float
    """Success rate on those tasks."""
    after: float
    interval: Interval
    """95% interval of the difference."""

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


def compare(
    before: EvaluationResult, after: EvaluationResult, *, draws: int = 5_000, seed: int = 0
) -> Comparison:
    """Return the difference in success rate. Raises DataError when the two share no task."""
    pairs = _common(before, after)
    successes_P2 = np.array([[task.successes for task in pair] for pair in pairs], dtype=np.float64)
    episodes_P2 = np.array([[task.episodes for task in pair] for pair in pairs], dtype=np.float64)
    rates = successes_P2.sum(0) / episodes_P2.sum(0)
    drawn = _drawn(successes_P2, episodes_P2, draws, np.random.default_rng(seed))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Comparison(len(pairs), float(rates[0]), float(rates[1]), Interval(float(low), float(high)))


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


def _drawn(
    successes_P2: NDArray[np.float64],
    episodes_P2: NDArray[np.float64],
    draws: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the difference on each of ``draws`` bootstrap samples of the tasks."""
    problems = len(successes_P2)
    counts = random.multinomial(problems, np.full(problems, 1 / problems), size=draws).astype(np.float64)
    rates = (counts @ successes_P2) / (counts @ episodes_P2)
    return rates[:, 1] - rates[:, 0]
