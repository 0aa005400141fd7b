"""Tables of a comparison of models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainer.report.model_comparison_text import (
    PAIR_COLUMNS,
    cause_columns,
    cause_rows,
    model_columns,
    model_rows,
    pair_rows,
    remarks,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.evaluate.model_comparison import ModelComparison


def comparison_view(comparison: ModelComparison) -> RenderableType:
    """Show figures, paired differences, causes of unsolved episodes, and remarks."""
    parts: list[RenderableType] = [
        _table(model_columns(comparison), model_rows(comparison)),
        _table(PAIR_COLUMNS, pair_rows(comparison.pairs)),
    ]
    if causes := list(cause_rows(comparison)):
        parts.append(_table(cause_columns(comparison), causes))
    return Group(*parts, *(Text(sentence, style="dim") for sentence in remarks(comparison)))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for cells in rows:
        table.add_row(*map(Text, cells))
    return table
