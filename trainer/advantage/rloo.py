"""RLOO (Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740): the group's other episodes are the
baseline.

Left out: normalising over the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


def rloo(rewards_G: Array) -> Array:
    """Return each reward minus the mean of the others; zeros for a group of one."""
    others = len(rewards_G) - 1
    if others < 1:
        return np.zeros_like(rewards_G)
    return rewards_G - (float(rewards_G.sum()) - rewards_G) / others
