"""Lay out rows of tokens as tensors of one forward pass, padded or packed.

Padded: one row per sequence with padding on the right, which causal attention never sees, so no mask is
needed. Packed: all sequences in one row, whose ``position_ids`` restart at 0, with attention within
sequences only.

In both layouts the model returns outputs for *kept* tokens only, one after another, row by row; losses work
on these K tokens and on ``sequences_K``, the index of each token's sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from trainer.types import IntT

    from .partition import Layout


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One sequence, and the tokens whose probability is requested."""

    token_ids_T: IntT
    kept_T: NDArray[np.bool_]
    """Never includes position 0, which has no predecessor."""
    output: int = 0
    """The output of the head that is read."""

    def __len__(self) -> int:
        return len(self.token_ids_T)


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """One forward pass."""

    rows: tuple[int, ...]
    """Indices of the rows; empty when the pass only keeps other ranks' collective calls in step."""
    input_ids: Tensor
    """B x T, or 1 x (all tokens)."""
    position_ids: Tensor | None
    """1 x (all tokens) when packed, else None."""
    lengths: tuple[int, ...] | None
    """Lengths of the sequences, when packed."""
    sources_K: Tensor
    """For each kept token, the index in the flattened ``input_ids`` of the token before it."""
    targets_K: Tensor
    """The kept tokens."""
    sequences_K: Tensor
    """For each kept token, the index into ``rows`` of its sequence, from 0."""
    outputs_K: Tensor
    """For each kept token, the output of the head that is read."""
    temperature: float = 1.0
    """Sampling temperature of the kept tokens."""
    wants_logits: bool = False
    """Return the logits of the kept tokens, and no statistics of them."""
    teacher_KV: Tensor | None = None
    """A teacher's logits of the kept tokens, to which the KL is computed. Where ranks share rows, of those
    of this rank's part."""


def lay_out(
    rows: Sequence[Row],
    indices: tuple[int, ...],
    layout: Layout,
    device: torch.device,
    temperature: float = 1.0,
) -> MicroBatch:
    """Return tensors of the rows ``indices``; without any, of two filler tokens that are not kept."""
    chosen = [rows[index] for index in indices] or [_NOBODY]
    longest = max(len(row) for row in chosen)
    lengths = np.array([len(row) for row in chosen])
    packed = layout == "packed"
    starts = np.cumsum(lengths) - lengths if packed else np.arange(len(chosen)) * longest
    input_ids = np.zeros(int(lengths.sum()) if packed else len(chosen) * longest, dtype=np.int64)
    sources = []
    for row, start in zip(chosen, starts, strict=True):
        input_ids[start : start + len(row)] = row.token_ids_T
        sources.append(start + np.flatnonzero(row.kept_T) - 1)
    sources_K = np.concatenate(sources)
    positions = np.concatenate([np.arange(length) for length in lengths]) if packed else None
    return MicroBatch(
        rows=indices,
        input_ids=_tensor(input_ids.reshape(1 if packed else len(chosen), -1), device),
        position_ids=None if positions is None else _tensor(positions[None], device),
        lengths=tuple(lengths.tolist()) if packed else None,
        sources_K=_tensor(sources_K, device),
        targets_K=_tensor(input_ids[sources_K + 1], device),
        sequences_K=_tensor(np.repeat(np.arange(len(chosen)), [len(part) for part in sources]), device),
        outputs_K=_tensor(np.repeat([row.output for row in chosen], [len(part) for part in sources]), device),
        temperature=temperature,
    )


def _tensor(array: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)


_NOBODY = Row(np.zeros(2, dtype=np.int32), np.array([False, True]))
