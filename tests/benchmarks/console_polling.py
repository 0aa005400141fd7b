"""The console's cost on the no-op step: steps of echo without a console, and beside open consoles.

    python -m tests.benchmarks.console_polling --output console.json

Starts a service with process boxes. A client in a process of its own takes one step after another; beside
it nothing, or tabs that get the overview as its script does (``--tabs``, every five seconds each), or one
that gets it as fast as it is answered. The order alternates, so that the machine's drift is in all of them.
Prints JSON: percentiles of the steps, and their ratio to those without a console. Run it on a quiet machine.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from service_cli.bench.context import rounded
from service_cli.bench.load import Target
from service_cli.bench.machine import describe_machine
from tests.benchmarks.quiet_tenant import Greedy, alone, two_tenants

POLL_S = 5.0
"""The interval of the console's script."""
Beside = Callable[[Greedy, int], Coroutine[Any, Any, None]]


async def nothing(visitor: Greedy, tabs: int) -> None:
    """No console."""


async def open_tabs(visitor: Greedy, tabs: int) -> None:
    """Consoles that renew themselves, evenly spread over the interval."""

    async def tab(number: int) -> None:
        await asyncio.sleep(POLL_S * number / tabs)
        while True:
            await visitor.send("/console", b"", "GET")
            await asyncio.sleep(POLL_S)

    await asyncio.gather(*map(tab, range(tabs)))


async def without_pause(visitor: Greedy, tabs: int) -> None:
    """One console that renews itself as soon as it is there."""
    while True:
        await visitor.send("/console", b"", "GET")


CASES: dict[str, Beside] = {"none": nothing, "tabs": open_tabs, "without_pause": without_pause}


@asynccontextmanager
async def visiting(visits: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Visits while the block runs. Raises the error that ended them."""
    task = asyncio.create_task(visits)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def measured(
    beside: Beside, visitor: Greedy, quiet: Target, tabs: int, seconds: float
) -> dict[str, Any]:
    """Figures of the steps, and the number of pages that were answered meanwhile."""
    visitor.answers.clear()
    async with visiting(beside(visitor, tabs)):
        figures = await alone(quiet, seconds)
    assert set(visitor.answers) <= {200}, visitor.answers
    return {**figures, "pages": visitor.answers[200]}


async def report(visitor: Greedy, quiet: Target, tabs: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Medians over the rounds, with all rounds beside."""
    await alone(quiet, 1.0)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for _ in range(rounds):
        for name, beside in CASES.items():
            found[name].append(await measured(beside, visitor, quiet, tabs, seconds))
            sys.stderr.write(f"{name} {json.dumps(rounded(found[name][-1]))}\n")
    middle = {
        name: {part: median(each[part] for each in figures) for part in ("p50_ms", "p99_ms", "pages")}
        for name, figures in found.items()
    }
    for figures in middle.values():
        for part in ("p50", "p99"):
            figures[f"ratio_{part}"] = figures[f"{part}_ms"] / middle["none"][f"{part}_ms"]
    settings = {"tabs": tabs, "seconds": seconds, "rounds": rounds}
    return {"machine": describe_machine(), **settings, "median": middle, "each": found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tabs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    words = parser.parse_args()
    with two_tenants({}) as (visiting, quiet):
        visitor = Greedy(visiting, 0, 0)
        figures = rounded(asyncio.run(report(visitor, quiet, words.tabs, words.seconds, words.rounds)))
    text = json.dumps(figures, indent=1) + "\n"
    if words.output:
        words.output.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
