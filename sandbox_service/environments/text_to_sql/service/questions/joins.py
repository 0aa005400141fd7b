"""Questions about rows of two tables or more, one of which refers to the other."""

from __future__ import annotations

from .question import QuestionFamily
from .subjects import (
    choices,
    dates,
    drawn,
    grandparents,
    labelled,
    limit,
    limit_of_children,
    numbers,
    relations,
    values,
)

_JOIN = "join"

FAMILIES = (
    QuestionFamily(
        "count_by_parents_value",
        _JOIN,
        (relations, values("parent")),
        (
            "How many {child.many} {reference.relation} {parent.many} whose {column.phrase} is '{value}' are "
            "there?",
            "Count the {child.many} {reference.relation} {parent.many} with the {column.phrase} '{value}'.",
        ),
        "SELECT COUNT(*) {joined} WHERE p.{column.name} = {quoted}",
    ),
    QuestionFamily(
        "aggregate_by_parents_value",
        _JOIN,
        (relations, numbers("child"), values("parent")),
        (
            "What is the average {measured} of the {child.many} {reference.relation} {parent.many} whose "
            "{column.phrase} is '{value}'?",
            "Take the {child.many} {reference.relation} {parent.many} with the {column.phrase} '{value}': "
            "what is their average {measured}?",
        ),
        "SELECT AVG(c.{number.name}) {joined} WHERE p.{column.name} = {quoted}",
    ),
    QuestionFamily(
        # Also the parents that no child refers to.
        "counts_of_all_parents",
        _JOIN,
        (relations, labelled("parent", "fixed")),
        (
            "For every {parent.one}, give its {label.phrase} and the number of {child.many} "
            "{reference.relation} it; 0 where there are none.",
            "List the {label.phrase} of all {parent.many} with the number of {child.many} "
            "{reference.relation} each of them, including those without any.",
        ),
        "SELECT p.{label.name}, COUNT(c.{child.key}) FROM {parent.name} AS p LEFT JOIN {child.name} AS c "
        "ON c.{reference.name} = p.{parent.key} GROUP BY p.{parent.key}",
    ),
    QuestionFamily(
        "parents_with_many",
        _JOIN,
        (relations, labelled("parent"), limit_of_children),
        (
            "List the {label.phrase} of the {parent.many} for which there are more than {limit} {child.many} "
            "{reference.relation} them.",
            "Which {parent.many} have more than {limit} {child.many} {reference.relation} them? Give their "
            "{label.phrase}.",
        ),
        "SELECT p.{label.name} {joined} GROUP BY p.{parent.key} HAVING COUNT(*) > {limit}",
    ),
    QuestionFamily(
        "totals_of_top_parents",
        _JOIN,
        (relations, labelled("parent"), numbers("child"), drawn({"count": 3}, {"count": 5})),
        (
            "Which {count} {parent.many} have the highest total {measured} over the {child.many} "
            "{reference.relation} them? Give {label.phrase} and total, the highest first; among equals, by "
            "{label.phrase}.",
            "Add up the {measured} of the {child.many} {reference.relation} each {parent.one}. Return "
            "{label.phrase} and total of the {count} highest totals, in descending order, ties by "
            "{label.phrase}.",
        ),
        "SELECT p.{label.name}, SUM(c.{number.name}) AS total {joined} "
        "GROUP BY p.{parent.key} ORDER BY total DESC, p.{label.name} LIMIT {count}",
        ordered=True,
    ),
    QuestionFamily(
        "latest_of_parents",
        _JOIN,
        (
            relations,
            labelled("parent", "fixed"),
            dates("child"),
            drawn({"word": "latest", "function": "MAX"}, {"word": "earliest", "function": "MIN"}),
        ),
        (
            "For each {parent.one} with {child.many} {reference.relation} it, give its {label.phrase} and "
            "the {word} {moment.phrase} of these {child.many}.",
            "What is the {word} {moment.phrase} of the {child.many} {reference.relation} each {parent.one}? "
            "Return {label.phrase} and date.",
        ),
        "SELECT p.{label.name}, {function}(c.{moment.name}) {joined} GROUP BY p.{parent.key}",
    ),
    QuestionFamily(
        "count_over_two_references",
        _JOIN,
        (relations, grandparents, values("grandparent")),
        (
            "How many {child.many} {reference.relation} {parent.many} {link.relation} {grandparent.many} "
            "whose {column.phrase} is '{value}' are there?",
            "Count the {child.many} {reference.relation} {parent.many} that are {link.relation} "
            "{grandparent.many} with the {column.phrase} '{value}'.",
        ),
        "SELECT COUNT(*) FROM {child.name} AS c "
        "JOIN {parent.name} AS m ON m.{parent.key} = c.{reference.name} "
        "JOIN {grandparent.name} AS p ON p.{grandparent.key} = m.{link.name} "
        "WHERE p.{column.name} = {quoted}",
    ),
    QuestionFamily(
        "counts_by_two_values",
        _JOIN,
        (relations, choices("parent"), numbers("child"), limit()),
        (
            "Group the {child.many} with a {measured} above {limit} by the {column.phrase} of the "
            "{parent.one} to which they belong ({child.many} {reference.relation} {parent.many}). Return "
            "{column.phrase} and count.",
            "For each {column.phrase} of {parent.many}, how many {child.many} {reference.relation} such "
            "{parent.many} have a {measured} above {limit}? Give {column.phrase} and number, without those "
            "that have none.",
        ),
        "SELECT p.{column.name}, COUNT(*) {joined} WHERE c.{number.name} > {limit} GROUP BY p.{column.name}",
    ),
)
