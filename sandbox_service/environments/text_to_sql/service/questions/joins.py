"""Questions about rows of two tables or more, one of which refers to the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .question import SqlQuestion, choices, joined, measured, quoted, relations, threshold

if TYPE_CHECKING:
    from sandbox_service.environments.text_to_sql.box.schema import Schema

_JOIN = "join"


def count_by_parents_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows refer to rows with a value."""
    for child, reference, parent in relations(schema):
        for column, value in choices(parent):
            yield SqlQuestion(
                _JOIN,
                (
                    f"How many {child.many} {reference.relation} {parent.many} whose {column.phrase} is "
                    f"'{value}' are there?",
                    f"Count the {child.many} {reference.relation} {parent.many} with the {column.phrase} "
                    f"'{value}'.",
                ),
                f"SELECT COUNT(*) {joined(child, reference, parent)} WHERE p.{column.name} = {quoted(value)}",
            )


def aggregate_by_parents_value(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask for the average number of rows that refer to rows with a value."""
    for child, reference, parent in relations(schema):
        for number in child.of_kind("integer", "amount"):
            for column, value in choices(parent):
                yield SqlQuestion(
                    _JOIN,
                    (
                        f"What is the average {measured(number)} of the {child.many} {reference.relation} "
                        f"{parent.many} whose {column.phrase} is '{value}'?",
                        f"Take the {child.many} {reference.relation} {parent.many} with the {column.phrase} "
                        f"'{value}': what is their average {measured(number)}?",
                    ),
                    f"SELECT AVG(c.{number.name}) {joined(child, reference, parent)} "
                    f"WHERE p.{column.name} = {quoted(value)}",
                )


def counts_of_all_parents(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows refer to each row, also to those that none refers to."""
    for child, reference, parent in relations(schema):
        label = parent.label
        if label is not None and label.kind == "fixed":
            yield SqlQuestion(
                _JOIN,
                (
                    f"For every {parent.one}, give its {label.phrase} and the number of {child.many} "
                    f"{reference.relation} it; 0 where there are none.",
                    f"List the {label.phrase} of all {parent.many} with the number of {child.many} "
                    f"{reference.relation} each of them, including those without any.",
                ),
                f"SELECT p.{label.name}, COUNT(c.{child.key}) FROM {parent.name} AS p LEFT JOIN {child.name} "
                f"AS c ON c.{reference.name} = p.{parent.key} GROUP BY p.{parent.key}",
            )


def parents_with_many(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which rows are referred to by more rows than a limit."""
    for child, reference, parent in relations(schema):
        label = parent.label
        if label is not None:
            limit = max(1, round(chance.uniform(1.2, 1.9) * child.rows / parent.rows))
            yield SqlQuestion(
                _JOIN,
                (
                    f"List the {label.phrase} of the {parent.many} for which there are more than {limit} "
                    f"{child.many} {reference.relation} them.",
                    f"Which {parent.many} have more than {limit} {child.many} {reference.relation} "
                    "them? Give "
                    f"their {label.phrase}.",
                ),
                f"SELECT p.{label.name} {joined(child, reference, parent)} "
                f"GROUP BY p.{parent.key} HAVING COUNT(*) > {limit}",
            )


def totals_of_top_parents(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask which few rows have the highest total of the rows that refer to them."""
    for child, reference, parent in relations(schema):
        label = parent.label
        for number in child.of_kind("integer", "amount"):
            if label is not None:
                count = chance.choice((3, 5))
                yield SqlQuestion(
                    _JOIN,
                    (
                        f"Which {count} {parent.many} have the highest total {measured(number)} over the "
                        f"{child.many} {reference.relation} them? Give {label.phrase} and total, the highest "
                        f"first; among equals, by {label.phrase}.",
                        f"Add up the {measured(number)} of the {child.many} {reference.relation} each "
                        f"{parent.one}. Return {label.phrase} and total of the {count} highest totals, in "
                        f"descending order, ties by {label.phrase}.",
                    ),
                    f"SELECT p.{label.name}, SUM(c.{number.name}) AS total "
                    f"{joined(child, reference, parent)} "
                    f"GROUP BY p.{parent.key} ORDER BY total DESC, p.{label.name} LIMIT {count}",
                    ordered=True,
                )


def latest_of_parents(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask for the latest date among the rows that refer to each row."""
    for child, reference, parent in relations(schema):
        label = parent.label
        for moment in child.of_kind("date"):
            if label is not None and label.kind == "fixed":
                word, function = chance.choice((("latest", "MAX"), ("earliest", "MIN")))
                yield SqlQuestion(
                    _JOIN,
                    (
                        f"For each {parent.one} with {child.many} {reference.relation} it, give its "
                        f"{label.phrase} and the {word} {moment.phrase} of these {child.many}.",
                        f"What is the {word} {moment.phrase} of the {child.many} {reference.relation} each "
                        f"{parent.one}? Return {label.phrase} and date.",
                    ),
                    f"SELECT p.{label.name}, {function}(c.{moment.name}) {joined(child, reference, parent)} "
                    f"GROUP BY p.{parent.key}",
                )


def count_over_two_references(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows refer to rows that refer to rows with a value."""
    for child, reference, middle in relations(schema):
        for further in middle.of_kind("reference"):
            parent = schema.table(further.table)
            for column, value in choices(parent):
                yield SqlQuestion(
                    _JOIN,
                    (
                        f"How many {child.many} {reference.relation} {middle.many} {further.relation} "
                        f"{parent.many} whose {column.phrase} is '{value}' are there?",
                        f"Count the {child.many} {reference.relation} {middle.many} that are "
                        f"{further.relation} {parent.many} with the {column.phrase} '{value}'.",
                    ),
                    f"SELECT COUNT(*) FROM {child.name} AS c "
                    f"JOIN {middle.name} AS m ON m.{middle.key} = c.{reference.name} "
                    f"JOIN {parent.name} AS p ON p.{parent.key} = m.{further.name} "
                    f"WHERE p.{column.name} = {quoted(value)}",
                )


def counts_by_two_values(schema: Schema, chance: random.Random) -> Iterator[SqlQuestion]:
    """Ask how many rows above a limit are there for each value of the rows that they refer to."""
    for child, reference, parent in relations(schema):
        for column in parent.of_kind("choice"):
            for number in child.of_kind("integer", "amount"):
                limit = threshold(number, chance)
                yield SqlQuestion(
                    _JOIN,
                    (
                        f"Group the {child.many} with a {measured(number)} above {limit} by the "
                        f"{column.phrase} of the {parent.one} to which they belong ({child.many} "
                        f"{reference.relation} {parent.many}). Return {column.phrase} and count.",
                        f"For each {column.phrase} of {parent.many}, how many {child.many} "
                        f"{reference.relation} such {parent.many} have a {measured(number)} above {limit}? "
                        f"Give {column.phrase} and number, without those that have none.",
                    ),
                    f"SELECT p.{column.name}, COUNT(*) {joined(child, reference, parent)} "
                    f"WHERE c.{number.name} > {limit} GROUP BY p.{column.name}",
                )


FAMILIES = (
    count_by_parents_value,
    aggregate_by_parents_value,
    counts_of_all_parents,
    parents_with_many,
    totals_of_top_parents,
    latest_of_parents,
    count_over_two_references,
    counts_by_two_values,
)
