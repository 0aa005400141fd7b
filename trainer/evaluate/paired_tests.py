"""Exact tests of two evaluations on the same tasks, and Holm's correction for several of them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of so many wins and losses, ties left out.

    The probability of a split at least as uneven when both are equally likely (sign test, Dixon and Mood
    1946). With one episode per task, tasks are either solved or not, and this is McNemar's exact test
    (McNemar 1947).
    """
    total = wins + losses
    tail = sum(math.comb(total, count) for count in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / (1 << total))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values adjusted for their number by Holm's step-down method (Holm 1979), in their order.

    An adjusted value below 0.05 rejects its hypothesis while the probability of any false rejection among
    all tests stays below 5%.
    """
    adjusted = [0.0] * len(p_values)
    greatest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        greatest = max(greatest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = greatest
    return tuple(adjusted)
