"""The critic's loss (Schulman et al. 2017; clipping from OpenAI's baselines, see Huang et al. 2022).

It is half the squared error. With a clip, it is the greater one of two: of the value, and of the value moved
by at most the clip from the old one. Left out: Huber and categorical losses.
"""

from __future__ import annotations

import torch
from torch import Tensor


def value_loss(
    values_BT: Tensor, old_values_BT: Tensor, returns_BT: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    """Return the loss of each token, and where clipping bounds it (boolean), both (B, T)."""
    free_BT = (values_BT - returns_BT).square()
    if clip is None:
        return free_BT / 2, torch.zeros_like(free_BT, dtype=torch.bool)
    near_BT = old_values_BT + (values_BT - old_values_BT).clamp(-clip, clip)
    bound_BT = (near_BT - returns_BT).square()
    return torch.max(free_BT, bound_BT) / 2, bound_BT > free_BT
