"""Tables of an evolution for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .figures import rate_text, success_interval_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from trainer.evolve.history import EvolutionResult, IterationResult


def evolution_view(evolution: EvolutionResult) -> RenderableType:
    """Show the iterations of an evolution, and the model that is kept."""
    table = Table(box=SIMPLE_HEAD)
    for column in ("iteration", "explored", "solved", "trained on", "held out", "95%"):
        table.add_column(column, justify="right")
    table.add_column("decision")
    for result in evolution.iterations:
        table.add_row(*_cells(result))
    return Group(
        table,
        Text(f"kept: the model of iteration {evolution.kept}, {evolution.model}", style="bold"),
        Text(f"report: {evolution.folder / 'report.html'}"),
    )


def evolution_json(evolution: EvolutionResult) -> dict[str, object]:
    """Return the same for other programs."""
    return {
        "folder": str(evolution.folder),
        "kept": evolution.kept,
        "model": str(evolution.model),
        "iterations": [result.to_json() for result in evolution.iterations],
    }


def _cells(result: IterationResult) -> Iterator[str]:
    explored, selected, held_out = result.explored, result.selected, result.evaluation
    yield str(result.number)
    yield "" if explored is None else str(explored.episodes)
    yield "" if explored is None else rate_text(explored.success_rate)
    yield "" if selected is None else str(selected.total)
    yield "" if held_out is None else rate_text(held_out.success_rate)
    yield "" if held_out is None else success_interval_text(held_out)
    yield result.verdict
