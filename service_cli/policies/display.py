"""Render the summary of a run as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .outcomes import LatencySummary, PlayedOutcome
    from .scores import GroupSummary, PolicyRunSummary


_MOST_SHOWN = 10


def summary_view(summary: PolicyRunSummary, outcomes: Iterable[PlayedOutcome]) -> RenderableType:
    """Return success by group, latency by operation, and failures if there are any."""
    pace = f"{summary.elapsed_s:.1f} s, {summary.episodes_per_s:.1f} per second"
    title = (
        f"{summary.policy} policy on {summary.environment}/{'+'.join(summary.splits)}: "
        f"{summary.overall.episodes} episodes in {pace}, {summary.concurrency} at a time"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), _success(summary)]
    parts += [Text(line) for line in _remarks(summary)]
    parts += [Text("Latency seen by the client, ms", style="bold"), _latencies(summary.latencies)]
    missed = [outcome for outcome in outcomes if outcome.success is False]
    failed = [outcome for outcome in outcomes if outcome.failed is not None]
    if missed:
        parts.append(_names("Not solved", [f"{item.task_id} (score {item.score})" for item in missed]))
    if summary.failures:
        parts.append(Text("Failed episodes, by failure class", style="bold red"))
        parts.append(_failures(summary.failure_codes))
        lines = [f"{item.task_id}: {item.failed.detail}" for item in failed if item.failed is not None]
        parts.append(_names("Failed", lines))
    return Group(*parts)


def _success(summary: PolicyRunSummary) -> Table:
    """Return a table of groups, with tokens for a model and pass@k for repeated tasks."""
    table = Table()
    table.add_column("tasks", overflow="fold")
    columns = ["episodes", "graded", "solved", "success"]
    if summary.repeat > 1:
        columns.append(f"pass@{summary.repeat}" + (", incomplete" if _incomplete(summary) else ""))
    columns += ["mean score", "mean steps"]
    columns += ["tokens in", "tokens out"] if summary.model_calls else []
    for column in columns:
        table.add_column(column, justify="right")
    sections = ((summary.overall,), summary.by_difficulty, summary.by_category)
    for section in sections:
        for row in section:
            table.add_row(*_group_row(row, summary))
        table.add_section()
    return table


def _group_row(row: GroupSummary, summary: PolicyRunSummary) -> tuple[str, ...]:
    cells = [row.name, str(row.episodes), str(row.graded), str(row.successes), _percent(row.success_rate)]
    if summary.repeat > 1:
        cells.append(_percent(row.pass_at_k))
    cells.append("-" if row.mean_score is None else f"{row.mean_score:.3f}")
    cells.append("-" if row.mean_steps is None else f"{row.mean_steps:.1f}")
    if summary.model_calls:
        cells += [f"{row.tokens_in:,}", f"{row.tokens_out:,}"]
    return tuple(cells)


def _incomplete(summary: PolicyRunSummary) -> bool:
    """Return whether a task has fewer graded episodes than pass@k needs."""
    return summary.repeat > 1 and 0 < summary.overall.fewest_graded < summary.repeat


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _remarks(summary: PolicyRunSummary) -> list[str]:
    """Return notes on repeated episodes, endings by the policy, truncated answers and missing episodes."""
    lines = [
        f"played again in a fresh instance after {name}: {_times(count)}"
        for name, count in summary.retries.items()
    ]
    lines += [f"{count} episodes ended by the policy: {reason}" for reason, count in summary.endings.items()]
    if summary.cut:
        lines.append(f"{summary.cut} of {summary.model_calls} answers were truncated at the maximum length")
    if _incomplete(summary):
        fewest = summary.overall.fewest_graded
        lines.append(
            f"pass@{summary.repeat} is incomplete: a task has {fewest} of {summary.repeat} episodes graded"
        )
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _latencies(latencies: Iterable[LatencySummary]) -> Table:
    table = Table()
    table.add_column("operation")
    for column in ("calls", "p50", "p95", "max", "in the sandbox p50"):
        table.add_column(column, justify="right")
    for row in latencies:
        run = "-" if row.run_p50_ms is None else f"{row.run_p50_ms:.1f}"
        cells = (f"{row.p50_ms:.1f}", f"{row.p95_ms:.1f}", f"{row.max_ms:.1f}", run)
        table.add_row(row.verb, str(row.calls), *cells)
    return table


def _failures(failures: Mapping[str, int]) -> Table:
    table = Table()
    table.add_column("failure")
    table.add_column("episodes", justify="right")
    for name, count in sorted(failures.items()):
        table.add_row(name, str(count))
    return table


def _names(title: str, lines: list[str]) -> Text:
    more = [f"... and {len(lines) - _MOST_SHOWN} more"] if len(lines) > _MOST_SHOWN else []
    return Text("\n  ".join([f"{title}:", *lines[:_MOST_SHOWN], *more]))
