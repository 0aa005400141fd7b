"""Guards against a policy that exploits errors of its reward models.

Members of an ensemble err differently where they have seen little, so that a pessimistic bound of their
scores rewards such episodes less (Coste et al. 2024, https://arxiv.org/abs/2310.02743; bounds by deviations:
Eisenstein et al. 2023, https://arxiv.org/abs/2312.09244). Left out: members that share a trunk.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

Bound: TypeAlias = Literal["mean", "min", "deviations"]
LEAST_EPISODES = 8
"""Least number of episodes whose order says anything."""


def pessimistic(scores_M: Sequence[Array], bound: Bound, deviations: float) -> Array:
    """Return one score of those of M models, entry by entry.

    Args:
        scores_M: arrays of one shape.
        bound: ``mean``; ``min``, the least; or ``deviations``, the mean minus that many standard deviations
            over the models.
        deviations: their number.
    """
    stacked = np.stack([np.asarray(each, dtype=np.float64) for each in scores_M])
    if bound == "min":
        return np.asarray(stacked.min(axis=0))
    mean = np.asarray(stacked.mean(axis=0))
    return mean if bound == "mean" else mean - deviations * stacked.std(axis=0)


def rank_correlation(one_N: Sequence[float], other_N: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties.

    None for fewer than eight episodes, and where all values of one side are equal.
    """
    if len(one_N) < LEAST_EPISODES:
        return None
    ranks = [_ranks(np.asarray(each, dtype=np.float64)) for each in (one_N, other_N)]
    one, other = (each - each.mean() for each in ranks)
    size = float(np.sqrt(np.square(one).sum() * np.square(other).sum()))
    return float((one * other).sum() / size) if size > 0 else None


def _ranks(values_N: Array) -> Array:
    _, places, counts = np.unique(values_N, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Array = (ends - (counts - 1) / 2)[places]
    return ranks


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """A step's episodes: learned and true reward."""

    learned: float
    """Mean learned reward."""
    true: float
    """Mean of the environment's score."""
    correlation: float | None
    """Rank correlation of the two over the step's episodes; None where undefined."""


class AgreementAlarm:
    """Raises an alarm when learned and true reward part, over a window of steps.

    They part when the mean rank correlation falls below a bound, or when the learned reward rises from the
    window's first to its second half by more than its noise while the true one falls by more than its own.
    """

    def __init__(self, window: int, least_correlation: float) -> None:
        self._least = least_correlation
        self._steps: deque[ComparedStep] = deque(maxlen=window)

    def add(self, step: ComparedStep) -> str | None:
        """Add a step. Returns why there is an alarm; None where there is none, or too little was seen."""
        self._steps.append(step)
        if len(self._steps) < (self._steps.maxlen or 0):
            return None
        known = [each.correlation for each in self._steps if each.correlation is not None]
        if known and (mean := float(np.mean(known))) < self._least:
            return (
                f"the rank correlation of learned and true reward over {len(self._steps)} steps is "
                f"{mean:.2f}, below {self._least:g}"
            )
        learned, true = (
            _shift([getattr(each, name) for each in self._steps]) for name in ("learned", "true")
        )
        if learned > 0 > true:
            return f"the learned reward rose over {len(self._steps)} steps while the true one fell"
        return None


def _shift(values: Sequence[float]) -> float:
    """Return the change from the first to the second half; 0 within twice its standard error."""
    half = len(values) // 2
    if half < 2:
        return 0.0
    first, second = np.asarray(values[:half]), np.asarray(values[-half:])
    change = float(second.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / half))
    return change if abs(change) > 2 * error else 0.0
