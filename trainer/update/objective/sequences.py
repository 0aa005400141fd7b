"""Sums over the sequences of a micro-batch, padded or packed."""

from __future__ import annotations

import torch
from torch import Tensor


def sequence_sums(values_BT: Tensor, sequences_BT: Tensor | None) -> Tensor:
    """Return the sum over each token's sequence, at every token of it, shape (B, T).

    Values outside of the mask must be 0.
    """
    if sequences_BT is None:
        return values_BT.sum(-1, keepdim=True).expand_as(values_BT)
    index_N = sequences_BT.clamp(min=0).flatten()
    sums_N = values_BT.new_zeros(values_BT.numel()).index_add(0, index_N, values_BT.flatten())
    return sums_N[index_N].view_as(values_BT)


def lengths(mask_BT: Tensor, sequences_BT: Tensor | None) -> Tensor:
    """Return the number of masked tokens of each token's sequence, float32, shape (B, T)."""
    return sequence_sums(mask_BT.to(torch.float32), sequences_BT)


def sequence_means(values_BT: Tensor, mask_BT: Tensor, sequences_BT: Tensor | None) -> Tensor:
    """Return the mean over the masked tokens of each token's sequence, shape (B, T); 0 without any."""
    inside_BT = values_BT.masked_fill(~mask_BT, 0.0)
    return sequence_sums(inside_BT, sequences_BT) / lengths(mask_BT, sequences_BT).clamp(min=1.0)
