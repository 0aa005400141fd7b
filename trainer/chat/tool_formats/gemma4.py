"""``<|tool_call>call:f{word:<|"|>a<|"|>,times:2}<tool_call|>``: Gemma 4."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .base import MOST_NESTED, decode_json, listed, named_call, space_after
from .markup import items, message_with_calls

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_OPEN, _CLOSE, _CALL = "<|tool_call>", "<tool_call|>", "call:"
_QUOTE = '<|"|>'
_KEY = re.compile(r"[^\s:,{}\[\]<]+")
_BOOLEAN = re.compile(r"(?:true|false)\b", re.IGNORECASE)
"""Python's spelling is read, too: the models also write it, as vLLM's parser allows for."""
_PARAGRAPH = """\
# Tools

You may call one or more of these functions:
{tools}

To call a function, write:
<|tool_call>call:function_name{{argument:<|"|>text<|"|>,another:1}}<tool_call|>"""


class _MalformedError(ValueError):
    """The text is not in the notation."""


class Gemma4Format:
    """Keys without quotes, text between quotes of its own, numbers and names as in JSON."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        def read(said: str, start: int, before: int) -> tuple[list[ToolCall], int] | None:
            try:
                call, end = _call(said, start, first + before)
            except _MalformedError:
                return None
            return [call], end

        return message_with_calls(text, _OPEN, read)

    def render(self, message: Message) -> str:
        return "".join([message.content or "", *map(_written, message.tool_calls or ())])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _call(text: str, start: int, number: int) -> tuple[ToolCall, int]:
    """Parse the call after its opening mark, and return it with its end. Raises _MalformedError."""
    begin = space_after(text, start)
    brace = text.find("{", begin, begin + 512)
    if not text.startswith(_CALL, begin) or brace < 0:
        raise _MalformedError
    arguments, end = _object(text, brace, 0)
    call = named_call(text[begin + len(_CALL) : brace].strip(), arguments, number)
    end = space_after(text, end)
    if call is None or not text.startswith(_CLOSE, end):
        raise _MalformedError
    return call, end + len(_CLOSE)


def _value(text: str, start: int, depth: int) -> tuple[object, int]:
    start = space_after(text, start)
    if depth > MOST_NESTED:
        raise _MalformedError
    if text.startswith(_QUOTE, start):
        return _quoted(text, start)
    if text.startswith("{", start):
        return _object(text, start, depth)
    if text.startswith("[", start):
        return _list(text, start, depth)
    if truth := _BOOLEAN.match(text, start):
        return truth[0].lower() == "true", truth.end()
    decoded = decode_json(text, start)
    if decoded is None:
        raise _MalformedError
    return decoded


def _quoted(text: str, start: int) -> tuple[str, int]:
    begin = start + len(_QUOTE)
    end = text.find(_QUOTE, begin)
    if end < 0:
        raise _MalformedError
    return text[begin:end], end + len(_QUOTE)


def _object(text: str, start: int, depth: int) -> tuple[dict[str, object], int]:
    found: dict[str, object] = {}
    position = space_after(text, start + 1)
    while not text.startswith("}", position):
        key, position = _name(text, position)
        position = space_after(text, position)
        if not text.startswith(":", position):
            raise _MalformedError
        found[key], position = _value(text, position + 1, depth + 1)
        position = _separated(text, position, "}")
    return found, position + 1


def _list(text: str, start: int, depth: int) -> tuple[list[object], int]:
    found: list[object] = []
    position = space_after(text, start + 1)
    while not text.startswith("]", position):
        value, position = _value(text, position, depth + 1)
        found.append(value)
        position = _separated(text, position, "]")
    return found, position + 1


def _name(text: str, start: int) -> tuple[str, int]:
    if text.startswith(_QUOTE, start):
        return _quoted(text, start)
    key = _KEY.match(text, start)
    if key is None:
        raise _MalformedError
    return key[0].strip('"'), key.end()


def _separated(text: str, position: int, close: str) -> int:
    """Return the position after the comma that follows a value, or at the closing mark."""
    position = space_after(text, position)
    if text.startswith(",", position):
        return space_after(text, position + 1)
    if not text.startswith(close, position):
        raise _MalformedError
    return position


def _written(call: ToolCall) -> str:
    return f"{_OPEN}{_CALL}{call.function.name}{_spelt(dict(items(call)))}{_CLOSE}"


def _spelt(value: object) -> str:
    if isinstance(value, str):
        return f"{_QUOTE}{value}{_QUOTE}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_spelt(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_spelt, value)) + "]"
    return json.dumps(value)
