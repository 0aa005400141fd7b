"""Generalised advantage estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438).

A step is a token, or a turn: then the value of a turn is the critic's before its first token, its reward the
sum over the turn, and its tokens share advantage and return (the turn as an action: ArCHer, Zhou et al.
2024, https://arxiv.org/abs/2402.19446). Steps continue over a trajectory's segments. A truncated episode is
graded like any other, so its value ends with the grade; ``bootstrap`` continues it with the critic's value
before the last sampled token, as an estimate of the one after it. Left out: both levels at once (bi-level
GAE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


def gae(rewards_K: Array, values_K: Array, gamma: float, lam: float, following: float = 0.0) -> Array:
    """Return the advantages of K steps, from their rewards and the values before them.

    ``following`` is the value after the last step. Returns for the critic are advantages plus values.
    """
    next_K = np.append(values_K[1:], following)[: len(values_K)]
    deltas_K = rewards_K + gamma * next_K - values_K
    advantages_K = np.zeros_like(deltas_K)
    carried = 0.0
    for step in reversed(range(len(deltas_K))):
        carried = deltas_K[step] + gamma * lam * carried
        advantages_K[step] = carried
    return advantages_K
