"""Questions that need a query within the query, or its equal."""

from __future__ import annotations

from .question import QuestionFamily
from .subjects import choices, labelled, numbers, relations, tables, two_values, values

_NESTED = "nested"

FAMILIES = (
    QuestionFamily(
        "labels_above_average",
        _NESTED,
        (tables, labelled("table"), numbers("table"), values("table")),
        (
            "List the {label.phrase} of the {table.many} whose {column.phrase} is '{value}' and whose "
            "{measured} is above the average of all {table.many}.",
            "Which {table.many} with the {column.phrase} '{value}' have a {measured} higher than the average "
            "over all {table.many}? Give their {label.phrase}.",
        ),
        "SELECT {label.name} FROM {table.name} WHERE {column.name} = {quoted} "
        "AND {number.name} > (SELECT AVG({number.name}) FROM {table.name})",
    ),
    QuestionFamily(
        "parents_without",
        _NESTED,
        (relations, labelled("parent"), values("child")),
        (
            "List the {label.phrase} of the {parent.many} for which there are no {child.many} "
            "{reference.relation} them whose {column.phrase} is '{value}'.",
            "Which {parent.many} have no {child.many} {reference.relation} them with the {column.phrase} "
            "'{value}'? Give their {label.phrase}.",
        ),
        "SELECT p.{label.name} FROM {parent.name} AS p WHERE NOT EXISTS (SELECT 1 FROM {child.name} AS c "
        "WHERE c.{reference.name} = p.{parent.key} AND c.{column.name} = {quoted})",
    ),
    QuestionFamily(
        "count_above_own_average",
        _NESTED,
        (relations, numbers("child")),
        (
            "How many {child.many} have a {measured} above the average of the {child.many} "
            "{reference.relation} the same {parent.one}?",
            "Count the {child.many} whose {measured} is higher than the average over all {child.many} "
            "{reference.relation} the same {parent.one}.",
        ),
        "SELECT COUNT(*) FROM {child.name} AS c WHERE c.{number.name} > (SELECT AVG(o.{number.name}) "
        "FROM {child.name} AS o WHERE o.{reference.name} = c.{reference.name})",
    ),
    QuestionFamily(
        # Without the parents that no child refers to.
        "average_count",
        _NESTED,
        (relations, values("child")),
        (
            "Count the {child.many} with the {column.phrase} '{value}' {reference.relation} each "
            "{parent.one}. What is the average count, leaving out {parent.many} with none? Round to two "
            "decimals.",
            "On average, how many {child.many} whose {column.phrase} is '{value}' are there "
            "{reference.relation} a {parent.one}, counting only {parent.many} that have at least one? Round "
            "to two decimals.",
        ),
        "SELECT ROUND(AVG(n), 2) FROM (SELECT COUNT(*) AS n FROM {child.name} "
        "WHERE {column.name} = {quoted} GROUP BY {reference.name})",
    ),
    QuestionFamily(
        "highest_of_each_value",
        _NESTED,
        (tables, labelled("table"), choices("table"), numbers("table")),
        (
            "For each {column.phrase}, which {table.many} have the highest {measured}? Give {column.phrase} "
            "and {label.phrase}; where several share it, each in a row of its own.",
            "Return {column.phrase} and {label.phrase} of the {table.many} whose {measured} is the highest "
            "among those with the same {column.phrase}, ties included.",
        ),
        "SELECT t.{column.name}, t.{label.name} FROM {table.name} AS t WHERE t.{number.name} "
        "= (SELECT MAX(o.{number.name}) FROM {table.name} AS o WHERE o.{column.name} = t.{column.name})",
    ),
    QuestionFamily(
        "parents_with_both",
        _NESTED,
        (relations, choices("child"), two_values),
        (
            "How many {parent.many} have both {child.many} with the {column.phrase} '{first}' and "
            "{child.many} with the {column.phrase} '{second}' {reference.relation} them?",
            "Count the {parent.many} for which there are {child.many} {reference.relation} them whose "
            "{column.phrase} is '{first}' as well as some whose {column.phrase} is '{second}'.",
        ),
        "SELECT COUNT(*) FROM (SELECT p.{parent.key} {joined} WHERE c.{column.name} = {first_quoted} "
        "INTERSECT SELECT p.{parent.key} {joined} WHERE c.{column.name} = {second_quoted})",
    ),
)
