"""Questions about the rows of one table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .question import SqlQuestion, choices, measured, quoted, threshold

if TYPE_CHECKING:
    from sandbox_service.environments.text_to_sql.box.schema import Schema

_FILTER, _AGGREGATE = "filter", "aggregate"
_AGGREGATES = {"average": "AVG", "lowest": "MIN", "highest": "MAX", "total": "SUM"}


def count_of_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows have a value."""
    for table in schema.tables:
        for column, value in choices(table):
            yield SqlQuestion(
                _FILTER,
                (
                    f"How many {table.many} have the {column.phrase} '{value}'?",
                    f"Count the {table.many} whose {column.phrase} is '{value}'.",
                    f"What is the number of {table.many} with '{value}' as their {column.phrase}?",
                ),
                f"SELECT COUNT(*) FROM {table.name} WHERE {column.name} = {quoted(value)}",
            )


def count_of_two_conditions(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows have a value, and a number above a limit."""
    for table in schema.tables:
        for number in table.of_kind("integer", "amount"):
            for column, value in choices(table):
                limit = threshold(number, chance)
                yield SqlQuestion(
                    _FILTER,
                    (
                        f"How many {table.many} have the {column.phrase} '{value}' and a {measured(number)} "
                        f"of more than {limit}?",
                        f"Count the {table.many} whose {column.phrase} is '{value}' and whose "
                        f"{measured(number)} is above {limit}.",
                    ),
                    f"SELECT COUNT(*) FROM {table.name} "
                    f"WHERE {column.name} = {quoted(value)} AND {number.name} > {limit}",
                )


def labels_above(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which rows have a number above a limit."""
    for table in schema.tables:
        label = table.label
        for number in table.of_kind("integer", "amount"):
            if label is not None:
                limit = threshold(number, chance, 0.75, 0.92)
                yield SqlQuestion(
                    _FILTER,
                    (
                        f"List the {label.phrase} of every {table.one} whose {measured(number)} is more than "
                        f"{limit}.",
                        f"Which {table.many} have a {measured(number)} above {limit}? Give their "
                        f"{label.phrase}.",
                    ),
                    f"SELECT {label.name} FROM {table.name} WHERE {number.name} > {limit}",
                )


def count_in_year(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows have a date in a year."""
    for table in schema.tables:
        for moment in table.of_kind("date"):
            for year in chance.sample(range(int(moment.low), int(moment.high) + 1), 2):
                yield SqlQuestion(
                    _FILTER,
                    (
                        f"How many {table.many} have a {moment.phrase} in the year {year}?",
                        f"Count the {table.many} whose {moment.phrase} lies in {year}.",
                    ),
                    f"SELECT COUNT(*) FROM {table.name} "
                    f"WHERE {moment.name} BETWEEN '{year}-01-01' AND '{year}-12-31'",
                )


def aggregate_of_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask for the average, or another aggregate, of a number over the rows with a value."""
    for table in schema.tables:
        for number in table.of_kind("integer", "amount"):
            for column, value in choices(table):
                word = chance.choice([*_AGGREGATES])
                yield SqlQuestion(
                    _AGGREGATE,
                    (
                        f"What is the {word} {measured(number)} of the {table.many} whose {column.phrase} is "
                        f"'{value}'?",
                        f"For {table.many} with the {column.phrase} '{value}', give the {word} "
                        f"{measured(number)}.",
                    ),
                    f"SELECT {_AGGREGATES[word]}({number.name}) FROM {table.name} "
                    f"WHERE {column.name} = {quoted(value)}",
                )


def top_labels(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which few rows have the highest number."""
    for table in schema.tables:
        label = table.label
        for number in table.of_kind("integer", "amount"):
            if label is not None:
                count = chance.choice((3, 4, 5))
                word, order = chance.choice((("highest", "DESC"), ("lowest", "ASC")))
                yield SqlQuestion(
                    _AGGREGATE,
                    (
                        f"Which {count} {table.many} have the {word} {measured(number)}? Give "
                        f"{label.phrase} and "
                        f"{number.phrase}, the {word} first; among equals, by {label.phrase}.",
                        f"List the {count} {table.many} with the {word} {measured(number)}, with "
                        f"{label.phrase} "
                        f"and {number.phrase}, beginning with the {word}. Order ties by {label.phrase}.",
                    ),
                    f"SELECT {label.name}, {number.name} FROM {table.name} "
                    f"ORDER BY {number.name} {order}, {label.name} LIMIT {count}",
                    ordered=True,
                )


def counts_by_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows are there for each value."""
    for table in schema.tables:
        for column in table.of_kind("choice"):
            yield SqlQuestion(
                _AGGREGATE,
                (
                    f"For each {column.phrase}, how many {table.many} are there? Give the "
                    f"{column.phrase} and "
                    "the number.",
                    f"Count the {table.many} by {column.phrase}. Return {column.phrase} and count.",
                ),
                f"SELECT {column.name}, COUNT(*) FROM {table.name} GROUP BY {column.name}",
            )


def averages_by_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask for the average number for each value, where it is above a limit."""
    for table in schema.tables:
        for column in table.of_kind("choice"):
            for number in table.of_kind("integer", "amount"):
                yield SqlQuestion(
                    _AGGREGATE,
                    (
                        f"What is the average {measured(number)} of the {table.many} for each "
                        f"{column.phrase}? "
                        f"Give the {column.phrase} and the average.",
                        f"Average the {measured(number)} of {table.many} by {column.phrase}. Return "
                        f"{column.phrase} and average.",
                    ),
                    f"SELECT {column.name}, AVG({number.name}) FROM {table.name} GROUP BY {column.name}",
                )


def share_of_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which percentage of the rows has a value."""
    for table in schema.tables:
        for column, value in choices(table):
            yield SqlQuestion(
                _AGGREGATE,
                (
                    f"What percentage of all {table.many} have the {column.phrase} '{value}'? Round to two "
                    "decimals.",
                    f"Out of 100 {table.many}, how many have '{value}' as their {column.phrase}, on average? "
                    "Round to two decimals.",
                ),
                f"SELECT ROUND(100.0 * SUM({column.name} = {quoted(value)}) / COUNT(*), 2) FROM {table.name}",
            )


FAMILIES = (
    count_of_value,
    count_of_two_conditions,
    labels_above,
    count_in_year,
    aggregate_of_value,
    top_labels,
    counts_by_value,
    averages_by_value,
    share_of_value,
)
