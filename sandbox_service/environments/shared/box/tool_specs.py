"""Tools as an agent sees them: OpenAI schemas, and the check of a call's arguments.

One table serves both: what is offered to the model is exactly what is enforced. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject


class ArgumentError(Exception):
    """The arguments of a call do not match the tool's schema; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    kind: str
    """A key of ``_KINDS``."""
    description: str
    required: bool = False
    choices: tuple[str, ...] = ()
    """The only values allowed, when there are any."""

    def schema(self) -> JsonObject:
        """Return the JSON schema of this argument."""
        schema = dict(_KINDS[self.kind][0])
        if self.choices:
            schema["enum"] = list(self.choices)
        return {**schema, "description": self.description}


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool: name, what it does, and its arguments."""

    name: str
    description: str
    parameters: dict[str, Parameter]

    def schema(self) -> JsonObject:
        """Return the tool in OpenAI's form."""
        properties = {name: parameter.schema() for name, parameter in self.parameters.items()}
        required = [name for name, parameter in self.parameters.items() if parameter.required]
        body = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "parameters": body}
        return {"type": "function", "function": function}


def _is_text(value: object) -> bool:
    """Return whether a value is a string for a file or program: no NUL, no lone surrogates."""
    return (
        isinstance(value, str)
        and "\0" not in value
        and not any("\ud800" <= char <= "\udfff" for char in value)
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_integer(item) for item in value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float)


_KINDS: dict[str, tuple[JsonObject, Any, str]] = {
    "text": ({"type": "string"}, _is_text, "a string of valid Unicode without NUL"),
    "integer": ({"type": "integer"}, _is_integer, "an integer"),
    "range": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        _is_range,
        "a list of two integers",
    ),
    "scalar": ({"type": ["string", "number", "boolean"]}, _is_scalar, "a string or a number"),
}

EXECUTE_BASH = ToolSpec(
    "execute_bash",
    "Run a command with bash in the working directory. Each call is a new shell; background processes end "
    "with the call. Files stay.",
    {"command": Parameter("text", "The command; may have several lines.", required=True)},
)

EDITOR = ToolSpec(
    "str_replace_editor",
    "View, create and edit text files. `view` shows a file with line numbers, or lists a directory; "
    "`create` writes a whole file; `str_replace` replaces text that occurs exactly once; `insert` puts text "
    "after a line.",
    {
        "command": Parameter(
            "text", "What to do.", required=True, choices=("view", "create", "str_replace", "insert")
        ),
        "path": Parameter("text", "File or directory, relative to the working directory.", required=True),
        "file_text": Parameter("text", "For create: the whole content of the file."),
        "old_str": Parameter("text", "For str_replace: the text to replace, exactly as in the file."),
        "new_str": Parameter("text", "For str_replace and insert: the new text."),
        "insert_line": Parameter("integer", "For insert: the line after which the text goes; 0 is the top."),
        "view_range": Parameter("range", "For view: first and last line, from 1; last -1 is the file's end."),
    },
)


def check_arguments(tools: Iterable[ToolSpec], tool: str, arguments: JsonObject) -> JsonObject:
    """Return the arguments without nulls, when they fit the schema of ``tool``. Raises ArgumentError."""
    by_name = {each.name: each for each in tools}
    spec = by_name.get(tool)
    if spec is None:
        raise ArgumentError(f"There is no tool {tool!r}. The tools are: {', '.join(by_name)}.")
    given = {name: value for name, value in arguments.items() if value is not None}
    unknown = sorted(set(given) - set(spec.parameters))
    if unknown:
        known = ", ".join(spec.parameters)
        raise ArgumentError(f"{tool} has no argument {unknown[0]!r}. Its arguments are: {known}.")
    for name, parameter in spec.parameters.items():
        if name not in given:
            if parameter.required:
                raise ArgumentError(f"{tool} needs the argument {name!r}.")
            continue
        _, matches, wanted = _KINDS[parameter.kind]
        if not matches(given[name]):
            raise ArgumentError(f"{tool}: {name!r} must be {wanted}, not {type(given[name]).__name__}.")
        if parameter.choices and given[name] not in parameter.choices:
            raise ArgumentError(f"{tool}: {name!r} must be one of {', '.join(parameter.choices)}.")
    return given
