"""The table of results: what hostile code tries, by the kind of box that it tries it in."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

COLUMNS = ("process", "docker", "runsc", "gvisor")
"""Kinds of box; ``runsc`` is Docker with gVisor as the runtime."""
_CASE = re.compile(
    r"tests/abuse/test_(?:(?P<file>process|docker|gvisor)_box|\w+)\.py::test_(?P<name>\w+)"
    r"(?:\[(?P<kind>process|docker|runsc|gvisor)\b)?"
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the attacks by kinds of box, and whether the boxes held."""
    rows: dict[str, dict[str, Counter[str]]] = {}
    cells: dict[tuple[str, str], object] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            found = _CASE.search(report.nodeid)
            kind = found and (found["kind"] or found["file"])
            if found and kind:
                row = rows.setdefault(found["name"], {column: Counter() for column in COLUMNS})
                row[kind][outcome] += 1
                # A test whose expectations of a kind are others says it in its own words.
                for _, words in report.user_properties:
                    cells[found["name"], kind] = words
    if not rows:
        return
    terminalreporter.section("hostile code by kind of box")
    terminalreporter.line(f"| what was tried | {' | '.join(COLUMNS)} |")
    terminalreporter.line("|---|" + "---|" * len(COLUMNS))
    for name, row in rows.items():
        line = [_cell(row[column], cells.get((name, column))) for column in COLUMNS]
        terminalreporter.line(f"| {name.replace('_', ' ')} | {' | '.join(line)} |")


def _cell(outcomes: Counter[str], words: object) -> str:
    if not outcomes:
        return "-"
    if set(outcomes) == {"skipped"}:
        return "not here"
    if set(outcomes) != {"passed"}:
        return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    return str(words or "holds")
