"""Messages of models that are no good action: nonsense, broken calls, wrong arguments; and idle actions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .subject import Json

NO_TOOL = "no_such_tool"
_LONG = 200_000

NONSENSE = (
    "",
    " \n\t",
    "I do not know what to do.",
    "x" * _LONG,
    "\x00\x01\x07\x1b[31m\x7f\u0085\ufeff",
    "日本語 \u202e مرحبا 🎉\U0010ffff",
    "```",
    "```python",
    "<think>a thought without an end",
    "</think>",
    "Action:",
    "%s%n{0}{{}} $(true) `true` '; --",
    "null",
    "[]",
    '{"answer": {}}',
    "1, 2",
    "nan",
    "1e999",
    "2025-13-45",
)

BROKEN_TEXT_CALLS = (
    "<tool_call>",
    "<tool_call></tool_call>",
    "<tool_call>{</tool_call>",
    "<tool_call>[]</tool_call>",
    '<tool_call>"text"</tool_call>',
    '<tool_call>{"name": 7, "arguments": {}}</tool_call>',
    '<tool_call>{"name": null}</tool_call>',
    '<tool_call>{"arguments": {}}</tool_call>',
    f'<tool_call>{{"name": "{NO_TOOL}", "arguments": "text"}}</tool_call>',
    f'<tool_call>{{"name": "{NO_TOOL}", "arguments": [1]}}',
    f'<tool_call>{{"name": "{NO_TOOL}", "arguments": {{"a": {"[" * 5000}',
    f'<tool_call>{{"name": "{"x" * _LONG}", "arguments": {{}}}}</tool_call>',
    '<tool_call>{"name": "__import__(\'os\').getpid", "arguments": {}}</tool_call>',
    "<tool_call>{}</tool_call><tool_call>{}</tool_call>" * 40,
)

BROKEN_NATIVE_ARGUMENTS: tuple[object, ...] = (
    "not json",
    "",
    "null",
    "5",
    "[]",
    '"text"',
    '{"a": ',
    '{"\\ud800": "\\udfff"}',
    '{"a": NaN}',
    "[" * 5000,
    json.dumps({"a": "x" * _LONG}),
    {"\x00": "\x00"},
    {},
)

_WRONG: dict[str, object] = {"string": [{}], "integer": "many", "number": "much", "boolean": "perhaps"}
_RIGHT: dict[str, object] = {"string": "zzz", "integer": 1, "number": 1.0, "boolean": False, "array": []}


def say(text: str) -> Json:
    """An assistant message of text."""
    return {"role": "assistant", "content": text}


def native(name: str, *arguments: object, ids: Sequence[str] = ()) -> Json:
    """An assistant message with one native call of a tool for each of the arguments."""
    calls = [
        {
            "id": ids[number] if ids else f"call_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": each if isinstance(each, str | dict) else json.dumps(each),
            },
        }
        for number, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def idle(tools: Sequence[Json]) -> Json:
    """An action that does nothing: a call of a tool that there is not, or, where there are none, talk."""
    return native(NO_TOOL, {}) if tools else say("Let me think.")


def junk(tools: Sequence[Json]) -> Iterable[Json]:
    """Actions that are well formed and lead nowhere."""
    yield say("I do not know what to do.")
    for tool in tools[:6]:
        yield native(tool["function"]["name"], _arguments(tool, _RIGHT))
    yield idle(tools)


def mistyped(tools: Sequence[Json]) -> Iterable[Json]:
    """Calls of the tools with arguments of wrong types, unknown ones, and nulls."""
    for tool in tools[:6]:
        name = tool["function"]["name"]
        yield native(name, _arguments(tool, _WRONG))
        yield native(name, {"no_such_argument": 1})
        yield native(name, dict.fromkeys(_required(tool)))


def _required(tool: Json) -> list[str]:
    parameters = tool["function"].get("parameters") or {}
    return list(parameters.get("required") or ())


def _arguments(tool: Json, values: Json) -> Json:
    properties = (tool["function"].get("parameters") or {}).get("properties") or {}
    return {name: _value(properties.get(name, {}), values) for name in _required(tool)}


def _value(schema: Json, values: Json) -> object:
    if values is _RIGHT and schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    return values.get(kind[0] if isinstance(kind, list) else kind, {} if values is _RIGHT else 7)
