"""Score given tokens with the model, without learning: each rank its share of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .packing import lay_out
from .partition import rank_micro_batches
from .row_table import RowTable

if TYPE_CHECKING:
    from trainer.types import FloatT

    from .packing import Row
    from .partition import Layout
    from .sharding import Parallel


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One array a row, one entry a token; 0 at tokens that are not kept."""

    logprobs: list[FloatT]
    values: list[FloatT] | None
    """None without a critic."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """Computes scores with the model."""

    model: Parallel
    budget: int
    """Tokens of a pass on each rank."""
    layout: Layout

    @torch.no_grad()
    def score(self, rows: Sequence[Row], temperature: float = 1.0) -> Scores:
        """Return scores of all rows at a sampling temperature, on every rank; collective."""
        model = self.model
        critic = model.core.value_head is not None
        table = RowTable(rows, 1 + critic, model.device)
        wanted = [index for index, row in enumerate(rows) if row.kept_T.any()]
        lengths = [len(row) for row in rows]
        model.core.eval()
        for indices in rank_micro_batches(lengths, wanted, model.mesh, self.budget, self.layout):
            outputs = model(lay_out(rows, indices, self.layout, model.device, temperature))
            if model.counts:
                table.put(indices, outputs.logprobs_K, *((outputs.values_K,) if critic else ()))
        model.rest()
        columns = table.read(model.world)
        return Scores(columns[0], columns[1] if critic else None)
