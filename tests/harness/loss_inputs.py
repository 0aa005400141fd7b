"""Micro-batches written down by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from trainer.update.objective import LossInputs

Rows: TypeAlias = Sequence[Sequence[float]]


def inputs(
    now: Rows | Tensor,
    *,
    old: Rows | None = None,
    sampling: Rows | None = None,
    advantages: Rows | None = None,
    mask: Rows | None = None,
    sequences: Sequence[Sequence[int]] | None = None,
    **others: Rows,
) -> LossInputs:
    """Inputs of a loss; old and sampling are those of now unless given, advantages 1, the mask full.

    ``others`` are ``ref_logprobs``, ``entropy``, ``values``, ``old_values`` and ``returns``.
    """
    logprobs = now if isinstance(now, Tensor) else torch.tensor(now)
    before = logprobs.detach() if old is None else torch.tensor(old)
    return LossInputs(
        logprobs_BT=logprobs,
        old_logprobs_BT=before,
        sampling_logprobs_BT=before if sampling is None else torch.tensor(sampling),
        advantages_BT=torch.ones_like(before) if advantages is None else torch.tensor(advantages),
        mask_BT=torch.ones_like(before, dtype=torch.bool) if mask is None else torch.tensor(mask) > 0,
        sequences_BT=None if sequences is None else torch.tensor(sequences),
        **{f"{name}_BT": torch.tensor(rows) for name, rows in others.items()},
    )
