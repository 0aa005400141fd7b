"""Subjects of questions: tables, columns and values of a schema, chosen step by step.

A step is given the names that the steps before it have chosen, and yields further ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.environments.text_to_sql.box.schema import Column, Schema

Names = dict[str, Any]
"""Tables, columns, and texts as questions and queries write them, by their names in templates."""
Step = Callable[[Names, random.Random], Iterator[Names]]


def subjects(schema: Schema, steps: tuple[Step, ...], chance: random.Random) -> Iterator[Names]:
    """Yield the names of each subject, in the order of the steps."""
    return _chosen({"schema": schema}, steps, chance)


def _chosen(names: Names, steps: tuple[Step, ...], chance: random.Random) -> Iterator[Names]:
    if not steps:
        yield names
        return
    for found in steps[0](names, chance):
        yield from _chosen(names | found, steps[1:], chance)


def tables(names: Names, chance: random.Random) -> Iterator[Names]:
    """Choose a ``table``."""
    for table in names["schema"].tables:
        yield {"table": table}


def relations(names: Names, chance: random.Random) -> Iterator[Names]:
    """Choose a ``child`` with a ``reference`` to a ``parent``; ``joined`` is the FROM clause of both."""
    for child in names["schema"].tables:
        for reference in child.of_kind("reference"):
            parent = names["schema"].table(reference.table)
            clause = f"FROM {child.name} AS c JOIN {parent.name} AS p ON p.{parent.key} = c.{reference.name}"
            yield {"child": child, "reference": reference, "parent": parent, "joined": clause}


def grandparents(names: Names, chance: random.Random) -> Iterator[Names]:
    """Choose the ``grandparent`` of a relation, and the ``link`` of the parent to it."""
    for link in names["parent"].of_kind("reference"):
        yield {"link": link, "grandparent": names["schema"].table(link.table)}


def labelled(table: str, *kinds: str) -> Step:
    """Return a step that takes only tables with a ``label``, of one of the kinds if there are any."""

    def choose(names: Names, chance: random.Random) -> Iterator[Names]:
        label = names[table].label
        if label is not None and (not kinds or label.kind in kinds):
            yield {"label": label}

    return choose


def numbers(table: str) -> Step:
    """Return a step that chooses a ``number``; ``measured`` is its phrase with its unit."""

    def choose(names: Names, chance: random.Random) -> Iterator[Names]:
        for number in names[table].of_kind("integer", "amount"):
            measured = f"{number.phrase} in {number.unit}" if number.unit else number.phrase
            yield {"number": number, "measured": measured}

    return choose


def dates(table: str) -> Step:
    """Return a step that chooses a date, ``moment``."""

    def choose(names: Names, chance: random.Random) -> Iterator[Names]:
        for moment in names[table].of_kind("date"):
            yield {"moment": moment}

    return choose


def choices(table: str) -> Step:
    """Return a step that chooses a ``column`` with a few values."""

    def choose(names: Names, chance: random.Random) -> Iterator[Names]:
        for column in names[table].of_kind("choice"):
            yield {"column": column}

    return choose


def values(table: str) -> Step:
    """Return a step that chooses such a ``column`` and a ``value``; ``quoted`` is the value in SQL."""

    def choose(names: Names, chance: random.Random) -> Iterator[Names]:
        for column in names[table].of_kind("choice"):
            for value in column.values:
                yield {"column": column, "value": value, "quoted": quoted(value)}

    return choose


def two_values(names: Names, chance: random.Random) -> Iterator[Names]:
    """Draw a ``first`` and a ``second`` value of the column."""
    first, second = chance.sample(names["column"].values, 2)
    yield {"first": first, "second": second, "first_quoted": quoted(first), "second_quoted": quoted(second)}


def years(names: Names, chance: random.Random) -> Iterator[Names]:
    """Draw two ``year``s of the date."""
    moment: Column = names["moment"]
    for year in chance.sample(range(int(moment.low), int(moment.high) + 1), 2):
        yield {"year": year}


def limit(low: float = 0.3, high: float = 0.7) -> Step:
    """Return a step that draws a ``limit`` between these shares of the number's range."""

    def draw(names: Names, chance: random.Random) -> Iterator[Names]:
        number: Column = names["number"]
        yield {"limit": round(number.low + chance.uniform(low, high) * (number.high - number.low))}

    return draw


def limit_of_children(names: Names, chance: random.Random) -> Iterator[Names]:
    """Draw a ``limit`` of children somewhat above those that a parent has on average."""
    yield {"limit": max(1, round(chance.uniform(1.2, 1.9) * names["child"].rows / names["parent"].rows))}


def drawn(*options: Names) -> Step:
    """Return a step that draws one of several names."""

    def draw(names: Names, chance: random.Random) -> Iterator[Names]:
        yield chance.choice(options)

    return draw


def quoted(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
