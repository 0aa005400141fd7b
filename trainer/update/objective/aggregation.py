"""Aggregate token losses to the loss of a minibatch by a weight for each token.

``token`` is the mean over all tokens (DAPO, Yu et al. 2025, https://arxiv.org/abs/2503.14476), ``sequence``
the mean over sequences of their means (GRPO, Shao et al. 2024, https://arxiv.org/abs/2402.03300),
``constant`` the mean over sequences of their sums over a constant (Dr. GRPO, Liu et al. 2025,
https://arxiv.org/abs/2503.20783), ``sum`` the plain sum, for coefficients of
whole sequences. Denominators count the whole minibatch, over all micro-batches and ranks,
so that plain sums of losses and gradients are right however it is split. A sequence is a sample: a trajectory
of several segments counts as several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from .sequences import lengths

Aggregation: TypeAlias = Literal["token", "sequence", "constant", "sum"]


@dataclass(frozen=True, slots=True)
class Totals:
    """Size of a minibatch over all ranks; samples count by their weight, and alike in fine-tuning."""

    tokens: float
    """Masked tokens."""
    sequences: float
    """Samples, whether or not they have masked tokens."""


def row_token_weights(
    mask_BT: Tensor,
    weights_S: Tensor,
    mode: Aggregation,
    totals: Totals,
    constant_length: int,
    sequences_BT: Tensor | None = None,
) -> Tensor:
    """Return the weight of each token in the loss, float32, shape (B, T), 0 outside of the mask.

    Args:
        mask_BT: True where the token is trained on.
        weights_S: weight of each sequence; one a row (S = B) without ``sequences_BT``.
        mode: the aggregation.
        totals: size of the minibatch, over all ranks.
        constant_length: tokens, for ``constant``.
        sequences_BT: each token's sequence in a packed micro-batch.
    """
    if sequences_BT is None:
        spread_BT = weights_S.float()[:, None].expand(mask_BT.shape)
    else:
        spread_BT = weights_S.float()[sequences_BT.clamp(min=0)]
    if mode == "token":
        share_BT = torch.full_like(spread_BT, _inverse(totals.tokens))
    elif mode == "sequence":
        share_BT = _inverse(totals.sequences) / lengths(mask_BT, sequences_BT).clamp(min=1.0)
    elif mode == "sum":
        share_BT = torch.ones_like(spread_BT)
    else:
        share_BT = torch.full_like(spread_BT, _inverse(totals.sequences) / constant_length)
    return (spread_BT * share_BT).masked_fill(~mask_BT, 0.0)


def _inverse(total: float) -> float:
    return 1.0 / total if total > 0 else 0.0
