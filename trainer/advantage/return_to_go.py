"""Returns: discounted sums of future rewards (Williams 1992, REINFORCE; the reward-to-go form)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


def return_to_go(rewards_K: Array, gamma: float) -> Array:
    """Return the sum over later steps j >= k of gamma^(j - k) rewards_j, for each turn or token k."""
    if gamma == 1.0:
        return np.cumsum(rewards_K[::-1])[::-1]
    returns_K = np.zeros_like(rewards_K)
    following = 0.0
    for step in reversed(range(len(rewards_K))):
        following = rewards_K[step] + gamma * following
        returns_K[step] = following
    return returns_K
