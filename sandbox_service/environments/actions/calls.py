"""Tool calls of an assistant message: OpenAI ``tool_calls``, or ``<tool_call>`` JSON in its text.

A call that is broken is not dropped: it becomes a call with a ``problem``, which is told to the model.
Nothing here raises on what a model wrote.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TAG", "Call", "native_calls", "parse_calls", "plain_text", "tagged_call"]

JsonObject = dict[str, Any]

TAG = "<tool_call>"
_TAG_END = "</tool_call>"
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call, whichever notation it was written in."""

    name: str
    arguments: JsonObject = field(default_factory=dict)
    call_id: str | None = None
    """The id of a native call."""
    native: bool = False
    """It was a native call, so a tool message answers it."""
    problem: str | None = None
    """Why it cannot be run, for the model."""


def parse_calls(message: JsonObject) -> list[Call]:
    """The calls of an assistant message in their order; none when it holds no call."""
    if message.get("tool_calls"):
        return native_calls(message["tool_calls"])
    text = plain_text(message.get("content"))
    calls: list[Call] = []
    position = text.find(TAG)
    while position >= 0:
        call, end = tagged_call(text, position + len(TAG))
        calls.append(call)
        position = text.find(TAG, end)
    return calls


def native_calls(tool_calls: object) -> list[Call]:
    """The entries of a ``tool_calls`` field."""
    return [_native(call) for call in (tool_calls if isinstance(tool_calls, list) else [tool_calls])]


def plain_text(content: object) -> str:
    """The text of a message without the model's thoughts, which may hold drafts of calls."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    text = _THOUGHT.sub("", content.replace("\r\n", "\n"))
    # Chat templates that open the thought themselves leave only its end in the message.
    return text.rpartition("</think>")[2]


def tagged_call(text: str, start: int) -> tuple[Call, int]:
    """The call of a ``<tool_call>`` whose JSON begins at ``start``, and where it ends."""
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    try:
        # The decoder, not the closing tag, finds the end: the tag may occur inside a string.
        call, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        return Call("", problem=f"The <tool_call> does not hold valid JSON: {error}."), _closed(text, start)
    end = _closed(text, end)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Call("", problem='<tool_call> must hold {"name": ..., "arguments": {...}}.'), end
    arguments, problem = _arguments(call.get("arguments", call.get("parameters")))
    return Call(call["name"], arguments, problem=problem), end


def _closed(text: str, position: int) -> int:
    close = text.find(_TAG_END, position)
    return len(text) if close < 0 else close + len(_TAG_END)


def _native(call: object) -> Call:
    function = call.get("function") if isinstance(call, dict) else None
    call_id = call.get("id") if isinstance(call, dict) else None
    call_id = call_id if isinstance(call_id, str) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return Call("", call_id=call_id, native=True, problem="The tool call has no function name.")
    arguments, problem = _arguments(function.get("arguments"))
    return Call(function["name"], arguments, call_id, native=True, problem=problem)


def _arguments(given: object) -> tuple[JsonObject, str | None]:
    """An arguments object and no problem, or an empty one and the problem."""
    if given is None or given == "":
        return {}, None
    if isinstance(given, str):
        try:
            given = json.loads(given, strict=False)
        except (ValueError, RecursionError) as error:
            return {}, f"The arguments are not valid JSON: {error}."
    if not isinstance(given, dict):
        return {}, f"The arguments must be a JSON object, not {type(given).__name__}."
    return given, None
