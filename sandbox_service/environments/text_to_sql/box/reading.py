"""Run one query that a model wrote: read-only, with bounded work, memory and output.

Runs in a candidate's process only, under a user id of its own. The bounds are counted in the database's own
instructions, not in time, so that a query has the same result on every machine. Standard library only.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Cell = int | float | str | None

MOST_INSTRUCTIONS = 20_000_000
"""Instructions of the database's virtual machine; the references take less than a hundredth of it."""
_STRIDE = 10_000
_MOST_CHARACTERS = 10_000
_MOST_VALUE_BYTES = 1_000_000
_MOST_HEAP_BYTES = 64 * 1024**2
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MOST_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * _MOST_CHARACTERS,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_FUNCTIONS = frozenset(
    [
        "abs",
        "avg",
        "ceil",
        "ceiling",
        "coalesce",
        "concat",
        "concat_ws",
        "count",
        "cume_dist",
        "dense_rank",
        "first_value",
        "floor",
        "format",
        "glob",
        "group_concat",
        "ifnull",
        "iif",
        "instr",
        "lag",
        "last_value",
        "lead",
        "length",
        "like",
        "lower",
        "ltrim",
        "max",
        "min",
        "mod",
        "nth_value",
        "ntile",
        "nullif",
        "percent_rank",
        "pow",
        "power",
        "printf",
        "rank",
        "replace",
        "round",
        "row_number",
        "rtrim",
        "sign",
        "sqrt",
        "string_agg",
        "substr",
        "substring",
        "sum",
        "total",
        "trim",
        "trunc",
        "typeof",
        "unicode",
        "upper",
        "date",
        "datetime",
        "julianday",
        "strftime",
        "time",
    ]
)
_DATE_FUNCTIONS = {"date": 1, "datetime": 1, "julianday": 1, "strftime": 2, "time": 1}
"""Least number of arguments with which they do not ask for the current time."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class QueryError(Exception):
    """The query cannot be run; the text is for the model."""


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The result of a query."""

    columns: list[str]
    rows: list[list[Cell]]
    more: bool
    """There are more rows than were asked for."""


def prepare_for_reading(database: sqlite3.Connection) -> None:
    """Let a database be read only, for good."""
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    database.execute(f"PRAGMA hard_heap_limit = {_MOST_HEAP_BYTES}")
    database.execute("PRAGMA query_only = ON")
    _pin_dates(database)
    database.set_authorizer(_authorize)


def run_query(database: sqlite3.Connection, query: str, most_rows: int) -> QueryRows:
    """Return the first rows of a query's result. Raises QueryError."""
    if len(query) > _MOST_CHARACTERS:
        raise QueryError(f"a query has at most {_MOST_CHARACTERS} characters")
    left = MOST_INSTRUCTIONS // _STRIDE

    def count_down() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    database.set_progress_handler(count_down, _STRIDE)
    try:
        cursor = database.execute(query)
        if cursor.description is None:
            raise QueryError("this is no query: write one SELECT statement")
        rows = cursor.fetchmany(most_rows + 1)
    except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError) as error:
        raise QueryError(_reason(error, stopped=left < 0)) from None
    finally:
        database.set_progress_handler(None, 0)
    columns = [str(each[0]) for each in cursor.description]
    return QueryRows(
        columns, [[_cell(value) for value in row] for row in rows[:most_rows]], len(rows) > most_rows
    )


def _reason(error: Exception, *, stopped: bool) -> str:
    if stopped:
        return "the query was stopped: it needs too much work"
    if isinstance(error, MemoryError):
        return "the query needs too much memory"
    text = str(error)
    return f"only reading is allowed: {text[:100]}" if "authoriz" in text else text[:500]


def _cell(value: object) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, int | float | str) else None


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _pin_dates(database: sqlite3.Connection) -> None:
    """Keep the current time away from queries: a replayed episode must have the same results."""
    plain = sqlite3.connect(":memory:")

    def pinned(name: str, least: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401  # SQL values
            if len(arguments) < least or "now" in (str(each).strip().lower() for each in arguments):
                raise ValueError("the current time is not available")
            marks = ", ".join("?" * len(arguments))
            return plain.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

        return call

    for name, least in _DATE_FUNCTIONS.items():
        database.create_function(name, -1, pinned(name, least), deterministic=True)
