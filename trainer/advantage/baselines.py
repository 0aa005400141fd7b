"""Baselines by turn: a group's mean return from each turn on, so that late turns are not charged for rewards
of earlier ones.

Time-dependent baselines of policy gradients (Greensmith et al. 2004,
https://jmlr.org/papers/v5/greensmith04a) over the episodes of a group; leave-one-out, as in RLOO, they keep
the gradient unbiased. An episode that has ended before a turn counts with the return of its last turn: with
a reward at the end only, each turn's baseline is that of the whole episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


def extended(returns_K: Array, turns: int) -> Array:
    """Extend returns to this many turns by repeating the last one; zeros where there is none."""
    if not len(returns_K):
        return np.zeros(turns)
    return np.concatenate([returns_K, np.full(turns - len(returns_K), returns_K[-1])])


def turn_baselines(returns_G: Sequence[Array], *, others: bool) -> list[Array]:
    """Return the baseline of each turn of each episode of a group, from the returns of its turns.

    Args:
        returns_G: for each episode the returns of its turns, shape (K,) with a K of its own.
        others: use the mean over the other episodes instead of all; a group of one is its own baseline.
    """
    longest = max((len(returns_K) for returns_K in returns_G), default=0)
    table_GK = np.stack([extended(returns_K, longest) for returns_K in returns_G])
    sums_K, count = table_GK.sum(axis=0), len(returns_G)
    if others and count > 1:
        means_GK = (sums_K - table_GK) / (count - 1)
    else:
        means_GK = np.broadcast_to(sums_K / count, table_GK.shape)
    return [means_K[: len(returns_K)] for means_K, returns_K in zip(means_GK, returns_G, strict=True)]
