"""Tool calls of an assistant message: OpenAI ``tool_calls``, or ``<tool_call>`` JSON in its text.

A call that is broken is not dropped: it becomes a call with a ``problem``, which is shown to the model.
Nothing here raises on what a model wrote, and reading a text takes time in proportion to its length.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

TAG = "<tool_call>"
MOST_CALLS = 64
"""Calls that are read from one text. An error of the JSON decoder counts the lines before it, so that the
time for any number of broken calls would grow with the square of the text."""
_MOST_DEPTH = 64
"""Levels of nesting in arguments; environments walk through them recursively."""
_TAG_END = "</tool_call>"
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_SPACE = re.compile(r"\s*")
_TOO_MANY = f"Not run: a message may hold at most {MOST_CALLS} calls."


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One tool call, whichever notation it was written in."""

    name: str
    arguments: JsonObject = field(default_factory=dict)
    call_id: str | None = None
    """The id of a native call."""
    native: bool = False
    """It was a native call, so a tool message answers it."""
    problem: str | None = None
    """The reason why it cannot be run, for the model."""


def parse_calls(message: JsonObject) -> list[ParsedCall]:
    """Return the calls of an assistant message in their order; none when it holds no call.

    Of a text with too many calls the last one returned stands for the rest, which was not read.
    """
    if message.get("tool_calls"):
        return native_calls(message["tool_calls"])
    text = plain_text(message.get("content"))
    calls: list[ParsedCall] = []
    position = text.find(TAG)
    while position >= 0:
        if len(calls) == MOST_CALLS:
            return [*calls, ParsedCall("", problem=_TOO_MANY)]
        call, end = tagged_call(text, position + len(TAG))
        calls.append(call)
        position = text.find(TAG, end)
    return calls


def native_calls(tool_calls: object) -> list[ParsedCall]:
    """Return the entries of a ``tool_calls`` field."""
    return [_native(call) for call in (tool_calls if isinstance(tool_calls, list) else [tool_calls])]


def plain_text(content: object) -> str:
    """Return the text of a message without the model's thoughts, which may hold drafts of calls."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    text = _THOUGHT.sub("", content.replace("\r\n", "\n"))
    # Chat templates that open the thought themselves leave only its end in the message.
    return text.rpartition("</think>")[2]


def tagged_call(text: str, start: int) -> tuple[ParsedCall, int]:
    """Return the call of a ``<tool_call>`` whose JSON begins at ``start``, and where it ends."""
    space = _SPACE.match(text, start)
    begin = space.end() if space else start
    try:
        # The decoder, not the closing tag, finds the end: the tag may occur inside a string.
        call, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        return ParsedCall("", problem=f"The <tool_call> does not hold valid JSON: {error}."), _closed(
            text, start
        )
    end = _closed(text, end)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ParsedCall("", problem='<tool_call> must hold {"name": ..., "arguments": {...}}.'), end
    arguments, problem = _arguments(call.get("arguments", call.get("parameters")))
    return ParsedCall(call["name"], arguments, problem=problem), end


def _closed(text: str, position: int) -> int:
    close = text.find(_TAG_END, position)
    return len(text) if close < 0 else close + len(_TAG_END)


def _native(call: object) -> ParsedCall:
    function = call.get("function") if isinstance(call, dict) else None
    call_id = call.get("id") if isinstance(call, dict) else None
    call_id = call_id if isinstance(call_id, str) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return ParsedCall("", call_id=call_id, native=True, problem="The tool call has no function name.")
    arguments, problem = _arguments(function.get("arguments"))
    return ParsedCall(function["name"], arguments, call_id, native=True, problem=problem)


def _arguments(given: object) -> tuple[JsonObject, str | None]:
    """Return an arguments object and no problem, or an empty one and the problem."""
    if given is None or given == "":
        return {}, None
    if isinstance(given, str):
        try:
            given = json.loads(given, strict=False)
        except (ValueError, RecursionError) as error:
            return {}, f"The arguments are not valid JSON: {error}."
    if not isinstance(given, dict):
        return {}, f"The arguments must be a JSON object, not {type(given).__name__}."
    problem = _problem_in(given)
    return ({}, problem) if problem else (given, None)


def _problem_in(arguments: object) -> str | None:
    """Return why a JSON value is not passed on; its levels are read one by one, without recursion.

    Numbers that are not finite make sums and comparisons that tools do not expect.
    """
    level = [arguments]
    for _ in range(_MOST_DEPTH):
        values = [
            value
            for each in level
            if isinstance(each, dict | list)
            for value in (each.values() if isinstance(each, dict) else each)
        ]
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            return "The arguments hold a number that is not finite, such as NaN or Infinity."
        level = [value for value in values if isinstance(value, dict | list)]
        if not level:
            return None
    return f"The arguments are nested deeper than {_MOST_DEPTH} levels."
