"""The tools that an agent has, and their arguments. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

LIST_TABLES, DESCRIBE, QUERY, SUBMIT = "list_tables", "describe_table", "run_query", "submit_query"


def _tool(name: str, description: str, **arguments: str) -> JsonObject:
    properties = {each: {"type": "string", "description": text} for each, text in arguments.items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = (
    _tool(LIST_TABLES, "List the tables of the database."),
    _tool(
        DESCRIBE, "Show the columns of a table, with their types and references.", table="The table's name."
    ),
    _tool(
        QUERY,
        "Run one SELECT statement (SQLite) on the database and show the first rows.",
        sql="The statement.",
    ),
    _tool(
        SUBMIT,
        "Submit the query that answers the question. This ends the episode.",
        sql="The statement. It is also run on databases with other rows.",
    ),
)
ARGUMENTS = {tool["function"]["name"]: tuple(tool["function"]["parameters"]["properties"]) for tool in TOOLS}
"""The arguments of each tool, all of them texts."""


def problem_of_call(name: str, arguments: JsonObject) -> str | None:
    """Return why a call cannot be run, for the model; None when it can."""
    if name not in ARGUMENTS:
        return f"There is no tool {name[:64]!r}; there are: {', '.join(ARGUMENTS)}."
    expected = ARGUMENTS[name]
    for argument in expected:
        if not isinstance(arguments.get(argument), str):
            return f"{name} needs the text {argument!r}."
    unknown = sorted(set(arguments) - set(expected))
    return f"{name} has no argument {unknown[0][:64]!r}." if unknown else None
