"""Baselines by turn: what a group earned on average from each turn on, so that late turns are not charged for
what earlier ones earned.

Time-dependent baselines of policy gradients (Greensmith et al. 2004, https://jmlr.org/papers/v5/greensmith04a)
over the episodes of a group; without the episode itself, as RLOO does it, they leave the gradient unbiased.
An episode that is over by then counts with the return of its last turn: where all is earned at the end, each
turn's baseline is that of the whole episode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .chains import Array

__all__ = ["extended", "turn_baselines"]


def extended(returns_K: Array, turns: int) -> Array:
    """Returns over so many turns, the last one repeated; zeros where there is none."""
    if not len(returns_K):
        return np.zeros(turns)
    return np.concatenate([returns_K, np.full(turns - len(returns_K), returns_K[-1])])


def turn_baselines(returns_G: Sequence[Array], *, others: bool) -> list[Array]:
    """The baseline of each turn of each episode of a group, from the returns of its turns.

    Args:
        returns_G: for each episode the returns of its turns, shape (K,) with a K of its own.
        others: the mean over the other episodes, else over all; a group of one is its own baseline.
    """
    longest = max((len(returns_K) for returns_K in returns_G), default=0)
    table_GK = np.stack([extended(returns_K, longest) for returns_K in returns_G])
    sums_K, count = table_GK.sum(axis=0), len(returns_G)
    if others and count > 1:
        means_GK = (sums_K - table_GK) / (count - 1)
    else:
        means_GK = np.broadcast_to(sums_K / count, table_GK.shape)
    return [means_K[: len(returns_K)] for means_K, returns_K in zip(means_GK, returns_G, strict=True)]
