"""Questions about the rows of one table."""

from __future__ import annotations

from .question import QuestionFamily
from .subjects import choices, dates, drawn, labelled, limit, numbers, tables, values, years

_FILTER, _AGGREGATE = "filter", "aggregate"

FAMILIES = (
    QuestionFamily(
        "count_of_value",
        _FILTER,
        (tables, values("table")),
        (
            "How many {table.many} have the {column.phrase} '{value}'?",
            "Count the {table.many} whose {column.phrase} is '{value}'.",
            "What is the number of {table.many} with '{value}' as their {column.phrase}?",
        ),
        "SELECT COUNT(*) FROM {table.name} WHERE {column.name} = {quoted}",
    ),
    QuestionFamily(
        "count_of_two_conditions",
        _FILTER,
        (tables, numbers("table"), values("table"), limit()),
        (
            "How many {table.many} have the {column.phrase} '{value}' and a {measured} of more than {limit}?",
            "Count the {table.many} whose {column.phrase} is '{value}' and whose {measured} is above "
            "{limit}.",
        ),
        "SELECT COUNT(*) FROM {table.name} WHERE {column.name} = {quoted} AND {number.name} > {limit}",
    ),
    QuestionFamily(
        "labels_above",
        _FILTER,
        (tables, labelled("table"), numbers("table"), limit(0.75, 0.92)),
        (
            "List the {label.phrase} of every {table.one} whose {measured} is more than {limit}.",
            "Which {table.many} have a {measured} above {limit}? Give their {label.phrase}.",
        ),
        "SELECT {label.name} FROM {table.name} WHERE {number.name} > {limit}",
    ),
    QuestionFamily(
        "count_in_year",
        _FILTER,
        (tables, dates("table"), years),
        (
            "How many {table.many} have a {moment.phrase} in the year {year}?",
            "Count the {table.many} whose {moment.phrase} lies in {year}.",
        ),
        "SELECT COUNT(*) FROM {table.name} WHERE {moment.name} BETWEEN '{year}-01-01' AND '{year}-12-31'",
    ),
    QuestionFamily(
        "aggregate_of_value",
        _AGGREGATE,
        (
            tables,
            numbers("table"),
            values("table"),
            drawn(
                {"word": "average", "function": "AVG"},
                {"word": "lowest", "function": "MIN"},
                {"word": "highest", "function": "MAX"},
                {"word": "total", "function": "SUM"},
            ),
        ),
        (
            "What is the {word} {measured} of the {table.many} whose {column.phrase} is '{value}'?",
            "For {table.many} with the {column.phrase} '{value}', give the {word} {measured}.",
        ),
        "SELECT {function}({number.name}) FROM {table.name} WHERE {column.name} = {quoted}",
    ),
    QuestionFamily(
        "top_labels",
        _AGGREGATE,
        (
            tables,
            labelled("table"),
            numbers("table"),
            drawn({"count": 3}, {"count": 4}, {"count": 5}),
            drawn({"word": "highest", "order": "DESC"}, {"word": "lowest", "order": "ASC"}),
        ),
        (
            "Which {count} {table.many} have the {word} {measured}? Give {label.phrase} and {number.phrase}, "
            "the {word} first; among equals, by {label.phrase}.",
            "List the {count} {table.many} with the {word} {measured}, with {label.phrase} and "
            "{number.phrase}, beginning with the {word}. Order ties by {label.phrase}.",
        ),
        "SELECT {label.name}, {number.name} FROM {table.name} "
        "ORDER BY {number.name} {order}, {label.name} LIMIT {count}",
        ordered=True,
    ),
    QuestionFamily(
        "counts_by_value",
        _AGGREGATE,
        (tables, choices("table")),
        (
            "For each {column.phrase}, how many {table.many} are there? Give the {column.phrase} and the "
            "number.",
            "Count the {table.many} by {column.phrase}. Return {column.phrase} and count.",
        ),
        "SELECT {column.name}, COUNT(*) FROM {table.name} GROUP BY {column.name}",
    ),
    QuestionFamily(
        "averages_by_value",
        _AGGREGATE,
        (tables, choices("table"), numbers("table")),
        (
            "What is the average {measured} of the {table.many} for each {column.phrase}? Give the "
            "{column.phrase} and the average.",
            "Average the {measured} of {table.many} by {column.phrase}. Return {column.phrase} and average.",
        ),
        "SELECT {column.name}, AVG({number.name}) FROM {table.name} GROUP BY {column.name}",
    ),
    QuestionFamily(
        "share_of_value",
        _AGGREGATE,
        (tables, values("table")),
        (
            "What percentage of all {table.many} have the {column.phrase} '{value}'? Round to two decimals.",
            "Out of 100 {table.many}, how many have '{value}' as their {column.phrase}, on average? "
            "Round to two decimals.",
        ),
        "SELECT ROUND(100.0 * SUM({column.name} = {quoted}) / COUNT(*), 2) FROM {table.name}",
    ),
)
