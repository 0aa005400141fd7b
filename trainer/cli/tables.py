"""Tables of evaluations and runs for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainer.errors import DataError
from trainer.evaluate.comparison import compare

from .figures import clock_text, percent, rate_text, success_interval_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.evaluate.results import EvaluationResult
    from trainer.launch.run import RunResult


def run_view(run: RunResult) -> RenderableType:
    """Show a finished run: success before and after, time by phase, and next steps."""
    parts: list[RenderableType] = [Text(f"{run.last_step} steps done, in {run.folder}", style="bold")]
    if run.before is not None or run.after is not None:
        parts.append(_before_after(run.before, run.after))
    parts.append(Text(_time(run.phase_seconds)))
    for path, what in (("report.html", "plots and episodes"), ("model", "the trained model")):
        if (run.folder / path).exists():
            parts.append(Text(f"{what}: {run.folder / path}"))
    return Group(*parts)


def run_json(run: RunResult) -> dict[str, object]:
    """Return the same result for other programs."""
    rates = {
        name: None if result is None else {"success": result.success_rate, "episodes": result.episodes}
        for name, result in (("before", run.before), ("after", run.after))
    }
    return {
        "folder": str(run.folder),
        "last_step": run.last_step,
        "phase_seconds": dict(run.phase_seconds),
        **rates,
    }


def _before_after(before: EvaluationResult | None, after: EvaluationResult | None) -> RenderableType:
    table = Table(box=SIMPLE_HEAD)
    for column in ("held out", "episodes", "success", "95%"):
        table.add_column(column, justify="left" if column == "held out" else "right")
    for name, result in (("before", before), ("after", after)):
        if result is not None:
            rate, interval = rate_text(result.success_rate), success_interval_text(result)
            table.add_row(name, str(result.episodes), rate, interval)
    if before is None or after is None:
        return table
    try:
        change = compare(before, after)
    except DataError as error:
        return Group(table, Text(str(error)))
    low, high = 100 * change.interval.low, 100 * change.interval.high
    sentence = (
        f"change on {change.tasks} tasks, each counting the same: {100 * change.difference:+.0f} points from "
        f"{percent(change.before)} to {percent(change.after)} ({low:+.0f} to {high:+.0f})"
    )
    return Group(table, Text(sentence, style="green" if change.interval.low > 0 else ""))


def _time(seconds: Mapping[str, float]) -> str:
    parts = ", ".join(f"{name} {clock_text(spent)}" for name, spent in seconds.items())
    return f"time: {parts}" if parts else ""
