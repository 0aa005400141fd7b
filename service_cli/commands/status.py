"""``sandbox-service status``: show boxes, instances and queues of the fleet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sandbox_client import RetryPolicy, SandboxClient, SandboxError
from sandbox_client.addresses import shown_address

from .options import DEFAULT_SERVER, ApiKeyOption, JsonOption, ServerOption
from .terminal import explained, results, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType

    from sandbox_contract.inspection import PoolStats, Stats, SupervisorStats


_UNBOUNDED = 10_000
"""Columns of a terminal that cuts nothing."""
_COUNTS = ("boxes", "idle", "busy", "starting", "resetting", "instances", "waiting")


def status(
    server: ServerOption = DEFAULT_SERVER,
    api_key: ApiKeyOption = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between updates.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Show the state of the service, continuously until Ctrl-C.

    Examples:

        sandbox-service status

        sandbox-service status --once --json
    """
    # Without retries: the next update comes soon, and failures are to be seen.
    with explained(), SandboxClient(server, api_key, retry=RetryPolicy(attempts=1)) as client:
        if as_json:
            write_json(client.stats().model_dump(mode="json"))
        elif once:
            results().print(stats_view(client.stats(), server))
        else:
            _watch(client, server, interval)


def _watch(client: SandboxClient, server: str, interval: float) -> None:
    view = stats_view(client.stats(), server)
    try:
        with Live(view, console=results(), auto_refresh=False, screen=False) as live:
            while True:
                time.sleep(interval)
                try:
                    view = stats_view(client.stats(), server)
                except SandboxError as error:
                    live.update(Group(view, Text(str(error), style="red")), refresh=True)
                else:
                    live.update(view, refresh=True)
    except KeyboardInterrupt:
        return


def stats_view(stats: Stats, server: str) -> RenderableType:
    """Return a table for each supervisor."""
    head = Text(f"{shown_address(server)}: {stats.instances} instances, {stats.queued} waiting", style="bold")
    excluded = (Text(f"{name} gets no requests: {why}", style="red") for name, why in stats.excluded.items())
    parts = (part for supervisor in stats.supervisors for part in _supervisor(supervisor))
    return Group(head, *excluded, *parts)


def _supervisor(supervisor: SupervisorStats) -> tuple[RenderableType, ...]:
    state = "draining" if supervisor.draining else f"up {supervisor.uptime_s:.0f} s"
    made = sum(pool.started_total for pool in supervisor.pools)
    gone = sum(pool.destroyed_total for pool in supervisor.pools)
    head = f"{supervisor.name} on {supervisor.node}, {state}; {made} boxes started, {gone} destroyed"
    rows = [row for pool in supervisor.pools for row in _rows_of(pool)]
    return Text(f"\n{head}"), _Pools(rows), *_protections(supervisor)


class _Pools:
    """The pools of a supervisor: a table where it fits into the terminal, and else a list."""

    def __init__(self, rows: Sequence[tuple[str, ...]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = _table(self._rows)
        if Measurement.get(console, options.update(width=_UNBOUNDED), table).maximum <= options.max_width:
            yield table
        else:
            yield from map(_in_words, self._rows)


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    # Without lines between the columns the table fits into 80 columns.
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("environment", no_wrap=True)
    table.add_column("sandbox", no_wrap=True)
    for column in _COUNTS:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _in_words(row: tuple[str, ...]) -> Text:
    """Return a row as a line that may be folded between its numbers."""
    environment, sandbox, *counts = row
    facts = [f"{name} {count}" for name, count in zip(_COUNTS, counts, strict=False) if count]
    return Text(" ".join(filter(None, (environment, sandbox))) + ": " + ", ".join(facts))


def _protections(supervisor: SupervisorStats) -> tuple[RenderableType, ...]:
    """Return the protections of process boxes on this node, as the start of the service prints them."""
    lines = []
    for word, wanted in (("on", True), ("off", False)):
        names = [name for name, on in supervisor.protections.items() if on is wanted]
        if names:
            lines.append(Text(f"protections {word}: {', '.join(names)}"))
    return tuple(lines)


def _rows_of(pool: PoolStats) -> Iterator[tuple[str, ...]]:
    """Yield the row of a pool, and those of the boxes among them that have images of single tasks."""
    boxes = pool.idle + pool.busy + pool.starting + pool.resetting
    counts = (pool.idle, pool.busy, pool.starting, pool.resetting, pool.instances, pool.queued)
    yield pool.environment, pool.sandbox, f"{boxes} of {pool.most_boxes}", *map(str, counts)
    if pool.max_image_boxes:
        most, busy, waiting = f"of {pool.max_image_boxes}", str(pool.image_busy), str(pool.image_queued)
        yield "- images", "", most, "", busy, "", "", "", waiting
    if pool.max_verifier_boxes:
        yield "- verifiers", "", f"of {pool.max_verifier_boxes}", "", str(pool.verifier_busy)
