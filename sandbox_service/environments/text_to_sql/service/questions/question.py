"""A question in words and in SQL, and what families of questions have in common."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox_service.environments.text_to_sql.box.schema import Column, Schema, Table


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """One question; it says which columns the answer has, and in which order."""

    category: str
    texts: tuple[str, ...]
    """The question in several words."""
    query: str
    ordered: bool = False
    """The order of the rows is a part of the answer."""


Family = Callable[[Schema, random.Random], Iterator[SqlQuestion]]
"""Yields questions about a schema, in an order that the generator shuffles."""


def quoted(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def threshold(column: Column, chance: random.Random, low: float = 0.3, high: float = 0.7) -> str:
    """Return a number that lies in the middle of a column's range, as question and query write it."""
    value = column.low + chance.uniform(low, high) * (column.high - column.low)
    return str(round(value))


def measured(column: Column) -> str:
    """Return a number's phrase with its unit."""
    return f"{column.phrase} in {column.unit}" if column.unit else column.phrase


def choices(table: Table) -> Iterator[tuple[Column, str]]:
    """Yield each value of each choice of a table."""
    for column in table.of_kind("choice"):
        for value in column.values:
            yield column, value


def relations(schema: Schema) -> Iterator[tuple[Table, Column, Table]]:
    """Yield each reference as the table that has it, its column, and the table that it points to."""
    for child in schema.tables:
        for reference in child.of_kind("reference"):
            yield child, reference, schema.table(reference.table)


def joined(child: Table, reference: Column, parent: Table) -> str:
    """Return the FROM clause of two tables, as ``c`` and ``p``."""
    return f"FROM {child.name} AS c JOIN {parent.name} AS p ON p.{parent.key} = c.{reference.name}"
