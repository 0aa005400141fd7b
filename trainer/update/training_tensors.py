"""Training tensors of a batch: rows, their weights, and columns of the tokens that are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from .packing import Row

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.types import Batch, FloatT, Objective


_COLUMNS = ("logprobs_T", "old_logprobs_T", "ref_logprobs_T", "values_T", "advantages_T", "returns_T")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTensors:
    """Samples with a weight and with a token to train on; the others would change nothing."""

    objective: Objective
    rows: list[Row]
    weights: list[float]
    columns: dict[str, list[FloatT]]
    """By the sample's field names, one array a row, of masked tokens only; fields that samples lack are
    absent.
    """

    @classmethod
    def of(cls, batch: Batch) -> TrainingTensors:
        """Return the training tensors of a batch."""
        samples = [sample for sample in batch.samples if sample.weight > 0 and sample.mask_T.any()]
        columns: dict[str, list[FloatT]] = {}
        for name in _COLUMNS:
            arrays = [getattr(sample, name) for sample in samples]
            if all(array is not None for array in arrays):
                columns[name] = [array[sample.mask_T] for array, sample in zip(arrays, samples, strict=True)]
        rows = [Row(sample.token_ids_T, sample.mask_T, sample.output) for sample in samples]
        return cls(batch.objective, rows, [sample.weight for sample in samples], columns)

    def column(self, name: str, indices: Sequence[int], device: torch.device) -> Tensor | None:
        """Return a column of some rows' masked tokens, (1, K); a single 0 for no rows, None when the batch
        lacks it.
        """
        if name not in self.columns:
            return None
        parts = [self.columns[name][index] for index in indices]
        return torch.from_numpy(np.concatenate(parts) if parts else _NOTHING).float().to(device)[None]

    def weight(self, indices: Sequence[int], device: torch.device) -> Tensor:
        """Return the weights of some rows; a single 0 for no rows."""
        return torch.tensor([self.weights[index] for index in indices] or [0.0], device=device)


_NOTHING = np.zeros(1, dtype=np.float32)
