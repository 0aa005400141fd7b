"""Schemas of the databases: tables, columns, and the words with which questions speak of them.

Each schema is a file of the folder ``schemas``. Standard library only.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("schemas")
_TYPES = {"id": "INTEGER PRIMARY KEY", "reference": "INTEGER", "integer": "INTEGER", "amount": "REAL"}
"""SQL types by kind; all other kinds are TEXT."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and how its values are drawn."""

    name: str
    kind: str
    """``id``, ``reference``, ``fixed``, ``person``, ``title``, ``choice``, ``date``, ``integer`` or
    ``amount``."""
    phrase: str = ""
    """The column in words."""
    unit: str = ""
    low: float = 0
    high: float = 0
    """Bounds of numbers; of dates, years."""
    values: tuple[str, ...] = ()
    """Values of a choice, or of the rows of a table that is the same in every database."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Words of which titles are composed."""
    table: str = ""
    """The table that a reference points to."""
    relation: str = ""
    """Relation of rows to the row that they refer to, as in: books *written by* authors."""

    @property
    def sql_type(self) -> str:
        """The type in the table's definition."""
        return _TYPES.get(self.kind, "TEXT")


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    name: str
    one: str
    many: str
    rows: int
    columns: tuple[Column, ...]

    @property
    def key(self) -> str:
        """Name of the primary key."""
        return self.columns[0].name

    @property
    def label(self) -> Column | None:
        """The column whose values name the rows, each a different one; None in tables of events."""
        return next((each for each in self.columns if each.kind in ("fixed", "person", "title")), None)

    def of_kind(self, *kinds: str) -> list[Column]:
        """Return the columns of some kinds."""
        return [each for each in self.columns if each.kind in kinds]


@dataclass(frozen=True, slots=True)
class Schema:
    """A database's tables; a table refers only to tables before it."""

    name: str
    title: str
    tables: tuple[Table, ...]

    def table(self, name: str) -> Table:
        """Return a table. Raises KeyError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)


def schema_names() -> list[str]:
    """Return the names of all schemas, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@functools.cache
def load_schema(name: str) -> Schema:
    """Return a schema. Raises KeyError."""
    if name not in schema_names():
        raise KeyError(name)
    content = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Schema(name, content["title"], tuple(_table(each) for each in content["tables"]))


def create_statement(table: Table) -> str:
    """Return the statement that makes a table, which is also how agents are shown it."""
    lines = [f"    {each.name} {each.sql_type}{_references(each)}" for each in table.columns]
    return f"CREATE TABLE {table.name} (\n" + ",\n".join(lines) + "\n)"


def _references(column: Column) -> str:
    return f" NOT NULL REFERENCES {column.table}" if column.kind == "reference" else " NOT NULL"


def _table(content: dict[str, Any]) -> Table:
    columns = tuple(
        Column(
            **{
                **column,
                "values": tuple(column.get("values", ())),
                "parts": tuple(tuple(each) for each in column.get("parts", ())),
            }
        )
        for column in content["columns"]
    )
    return Table(content["name"], content["one"], content["many"], content["rows"], columns)
