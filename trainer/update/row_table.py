"""Values of kept tokens, written by the rank that computed them and read by all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from .sharding import sum_over_ranks

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.types import FloatT

    from .packing import Row


class RowTable:
    """A few float32 columns over all tokens of all rows, 0 where nothing was written.

    Ranks write their own rows and leave the rest 0, so that the sum over ranks is the complete table,
    exactly.
    """

    def __init__(self, rows: Sequence[Row], columns: int, device: torch.device) -> None:
        self._rows = rows
        self._starts = np.cumsum([0, *(len(row) for row in rows)])
        self._numbers = torch.zeros(columns, int(self._starts[-1]), device=device)

    def put(self, indices: tuple[int, ...], *columns_K: Tensor | None) -> None:
        """Write the values of some rows' kept tokens, row by row; None leaves a column unchanged."""
        if not indices:
            return
        places = np.concatenate(
            [self._starts[index] + np.flatnonzero(self._rows[index].kept_T) for index in indices]
        )
        into = torch.from_numpy(places).to(self._numbers.device)
        for column, values_K in zip(self._numbers, columns_K, strict=True):
            if values_K is not None:
                column[into] = values_K.detach()

    def read(self, world: int) -> list[list[FloatT]]:
        """Return one array per row for each column, on every rank; collective."""
        numbers = sum_over_ranks(self._numbers, world).cpu().numpy()
        cuts = self._starts[1:-1]
        return [[part.copy() for part in np.split(column, cuts)] if self._rows else [] for column in numbers]
