"""Tasks: questions about databases, proven by running their queries.

A task is kept only if its query gives another result on each of its databases, so that no answer that is
written down is right, and if no query of another task of the schema gives the same results on all of them.
Nothing here may change: the tasks of an id are the same for ever, on every machine.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.environments.text_to_sql.box.comparison import same_rows
from sandbox_service.environments.text_to_sql.box.database import build_database
from sandbox_service.environments.text_to_sql.box.schema import load_schema, schema_names

from .questions import joins, nested, single_table

if TYPE_CHECKING:
    import sqlite3

    from .questions.question import SqlQuestion

SPLITS = {
    "test": ("hotels", "wind_power"),
    "validation": ("music",),
}
"""Schemas that are held out; all others are in the training split."""
FAMILIES = (*single_table.FAMILIES, *joins.FAMILIES, *nested.FAMILIES)
_TASKS_OF_FAMILY = 3
"""Tasks of one family about one schema."""
_HIDDEN = 2
"""Databases on which a query is graded."""
_MOST_ROWS = 120
"""Rows of a result."""
_TOP_SEED = 1_000_000_000

Results = tuple[tuple[tuple[object, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class SqlTask:
    """One task."""

    id: str
    split: str
    schema: str
    category: str
    question: str
    query: str
    ordered: bool
    seed: int
    """Seed of the rows that the agent sees."""
    hidden_seeds: tuple[int, ...]
    """Seeds of the rows on which its query is graded."""


@functools.cache
def load_tasks() -> dict[str, SqlTask]:
    """Return all tasks by id, those of one schema after those of another."""
    return {task.id: task for name in schema_names() for task in _tasks_of(name)}


def split_of(schema: str) -> str:
    """Return the split of a schema's tasks."""
    return next((split for split, names in SPLITS.items() if schema in names), "train")


def _tasks_of(name: str) -> Iterator[SqlTask]:
    schema = load_schema(name)
    seeds = _seeds(name)
    databases = [build_database(schema, seed) for seed in seeds]
    known: set[Results] = set()
    for family in FAMILIES:
        # A generator of its own: a change of one family changes no other one.
        chance = random.Random(f"{name} {family.name}")
        questions = list(family.questions(schema, chance))
        chance.shuffle(questions)
        number = 0
        for question in questions:
            results = _results(databases, question)
            if results in known or not _tells_apart(results, question):
                continue
            known.add(results)
            number += 1
            yield SqlTask(
                id=f"{name}/{family.name}/{number}",
                split=split_of(name),
                schema=name,
                category=question.category,
                question=chance.choice(question.texts),
                query=question.query,
                ordered=question.ordered,
                seed=seeds[0],
                hidden_seeds=tuple(seeds[1:]),
            )
            if number == _TASKS_OF_FAMILY:
                break
    for database in databases:
        database.close()


def _seeds(schema: str) -> list[int]:
    """Return the seeds of a schema's databases, the one that agents see first."""
    return random.Random(f"databases of {schema}").sample(range(_TOP_SEED), 1 + _HIDDEN)


def _results(databases: list[sqlite3.Connection], question: SqlQuestion) -> Results:
    return tuple(tuple(database.execute(question.query).fetchall()) for database in databases)


def _tells_apart(results: Results, question: SqlQuestion) -> bool:
    """Return whether results are neither empty nor long, and different for each database."""
    if not all(0 < len(rows) <= _MOST_ROWS and any(any(row) for row in rows) for rows in results):
        return False
    pairs = [(left, right) for index, left in enumerate(results) for right in results[index + 1 :]]
    return not any(same_rows(left, right, ordered=question.ordered) for left, right in pairs)
