"""Tables of a comparison of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
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

from .wide_tables import WideTable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.evaluate.model_comparison import ModelComparison


def comparison_view(comparison: ModelComparison) -> RenderableType:
    """Show figures, paired differences, causes of unsolved episodes, and remarks."""
    parts: list[RenderableType] = [
        WideTable(model_columns(comparison), model_rows(comparison)),
        WideTable(PAIR_COLUMNS, pair_rows(comparison.pairs)),
    ]
    if causes := list(cause_rows(comparison)):
        parts.append(WideTable(cause_columns(comparison), causes))
    return Group(*parts, *(Text(sentence, style="dim") for sentence in remarks(comparison)))
