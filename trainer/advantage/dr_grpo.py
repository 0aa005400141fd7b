"""Dr. GRPO (Liu et al. 2025, https://arxiv.org/abs/2503.20783): GRPO without division by the deviation.

The paper's other half, a constant length instead of each sequence's own, is the aggregation ``constant``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chains import Array


def dr_grpo(rewards_G: Array) -> Array:
    """Return rewards minus their mean."""
    return rewards_G - float(rewards_G.mean())
