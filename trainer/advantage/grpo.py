"""GRPO (Shao et al. 2024, https://arxiv.org/abs/2402.03300): one advantage a trajectory.

Left out: process supervision (see ``return_to_go``); the deviation of the batch in place of the group's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .ties import tied

if TYPE_CHECKING:
    from .chains import Array


def grpo(rewards_G: Array, epsilon: float) -> Array:
    """Return (rewards - mean) / (sample standard deviation + epsilon); zeros for a group of one or equal
    rewards.
    """
    if len(rewards_G) < 2 or tied(rewards_G):
        return np.zeros_like(rewards_G)
    return (rewards_G - float(rewards_G.mean())) / (float(rewards_G.std(ddof=1)) + epsilon)
