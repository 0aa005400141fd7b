"""Questions that need a query within the query, or its equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .question import SqlQuestion, choices, joined, measured, quoted, relations

if TYPE_CHECKING:
    from sandbox_service.environments.text_to_sql.box.schema import Schema

_NESTED = "nested"


def labels_above_average(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which rows with a value have a number above the average of all rows."""
    for table in schema.tables:
        label = table.label
        for number in table.of_kind("integer", "amount"):
            for column, value in choices(table):
                if label is not None:
                    yield SqlQuestion(
                        _NESTED,
                        (
                            f"List the {label.phrase} of the {table.many} whose {column.phrase} is '{value}' "
                            f"and whose {measured(number)} is above the average of all {table.many}.",
                            f"Which {table.many} with the {column.phrase} '{value}' have a "
                            f"{measured(number)} "
                            f"higher than the average over all {table.many}? Give their {label.phrase}.",
                        ),
                        f"SELECT {label.name} FROM {table.name} WHERE {column.name} = {quoted(value)} "
                        f"AND {number.name} > (SELECT AVG({number.name}) FROM {table.name})",
                    )


def parents_without(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which rows have no row with a value that refers to them."""
    for child, reference, parent in relations(schema):
        label = parent.label
        for column, value in choices(child):
            if label is not None:
                yield SqlQuestion(
                    _NESTED,
                    (
                        f"List the {label.phrase} of the {parent.many} for which there are no {child.many} "
                        f"{reference.relation} them whose {column.phrase} is '{value}'.",
                        f"Which {parent.many} have no {child.many} {reference.relation} them with the "
                        f"{column.phrase} '{value}'? Give their {label.phrase}.",
                    ),
                    f"SELECT p.{label.name} FROM {parent.name} AS p WHERE NOT EXISTS (SELECT 1 FROM "
                    f"{child.name} AS c WHERE c.{reference.name} = p.{parent.key} "
                    f"AND c.{column.name} = {quoted(value)})",
                )


def count_above_own_average(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows are above the average of the rows that refer to the same row."""
    for child, reference, parent in relations(schema):
        for number in child.of_kind("integer", "amount"):
            yield SqlQuestion(
                _NESTED,
                (
                    f"How many {child.many} have a {measured(number)} above the average of the {child.many} "
                    f"{reference.relation} the same {parent.one}?",
                    f"Count the {child.many} whose {measured(number)} is higher than the average over all "
                    f"{child.many} {reference.relation} the same {parent.one}.",
                ),
                f"SELECT COUNT(*) FROM {child.name} AS c WHERE c.{number.name} > (SELECT "
                f"AVG(o.{number.name}) "
                f"FROM {child.name} AS o WHERE o.{reference.name} = c.{reference.name})",
            )


def average_count(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows refer to each row on average, those that none refers to left out."""
    for child, reference, parent in relations(schema):
        for column, value in choices(child):
            yield SqlQuestion(
                _NESTED,
                (
                    f"Count the {child.many} with the {column.phrase} '{value}' {reference.relation} each "
                    f"{parent.one}. What is the average count, leaving out {parent.many} with none? Round to "
                    "two decimals.",
                    f"On average, how many {child.many} whose {column.phrase} is '{value}' are there "
                    f"{reference.relation} a {parent.one}, counting only {parent.many} that have at "
                    "least one? "
                    "Round to two decimals.",
                ),
                f"SELECT ROUND(AVG(n), 2) FROM (SELECT COUNT(*) AS n FROM {child.name} "
                f"WHERE {column.name} = {quoted(value)} GROUP BY {reference.name})",
            )


def highest_of_each_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which row has the highest number for each value."""
    for table in schema.tables:
        label = table.label
        for column in table.of_kind("choice"):
            for number in table.of_kind("integer", "amount"):
                if label is not None:
                    yield SqlQuestion(
                        _NESTED,
                        (
                            f"For each {column.phrase}, which {table.many} have the highest "
                            f"{measured(number)}? "
                            f"Give {column.phrase} and {label.phrase}; where several share it, each in a row "
                            "of its own.",
                            f"Return {column.phrase} and {label.phrase} of the {table.many} whose "
                            f"{measured(number)} is the highest among those with the same {column.phrase}, "
                            "ties included.",
                        ),
                        f"SELECT t.{column.name}, t.{label.name} FROM {table.name} AS t WHERE "
                        f"t.{number.name} "
                        f"= (SELECT MAX(o.{number.name}) FROM {table.name} AS o "
                        f"WHERE o.{column.name} = t.{column.name})",
                    )


def parents_with_both(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows are referred to both by rows with one value and by rows with another."""
    for child, reference, parent in relations(schema):
        for column in child.of_kind("choice"):
            first, second = chance.sample(column.values, 2)
            clause = f"SELECT p.{parent.key} {joined(child, reference, parent)} WHERE c.{column.name} = "
            yield SqlQuestion(
                _NESTED,
                (
                    f"How many {parent.many} have both {child.many} with the {column.phrase} '{first}' and "
                    f"{child.many} with the {column.phrase} '{second}' {reference.relation} them?",
                    f"Count the {parent.many} for which there are {child.many} {reference.relation} "
                    "them whose "
                    f"{column.phrase} is '{first}' as well as some whose {column.phrase} is '{second}'.",
                ),
                f"SELECT COUNT(*) FROM ({clause}{quoted(first)} INTERSECT {clause}{quoted(second)})",
            )


FAMILIES = (
    labels_above_average,
    parents_without,
    count_above_own_average,
    average_count,
    highest_of_each_value,
    parents_with_both,
)
