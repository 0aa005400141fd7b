"""The interface of tool formats, and helpers that they share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from sandbox_contract.messages import MOST_TOOL_CALLS, FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from sandbox_contract.messages import Tool


_CALL_KEYS = ("arguments", "parameters")
_NAME_KEYS = ("name", "tool_name")
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
MOST_NESTED = 64
"""Levels of objects and lists in the arguments of a call: rendering deeper ones exhausts the stack."""


class ToolFormat(Protocol):
    """A notation of tool calls.

    Only well-formed calls are parsed: malformed ones stay in the content, where the environment sees them
    and can answer. Parsing takes time linear in the text, since all episodes of a run wait for it.
    """

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        """Parse a sampled text into an assistant message; its calls are numbered from ``first``.

        ``tools`` are those in the prompt: notations that write numbers and text alike need them.
        """
        ...

    def render(self, message: Message) -> str:
        """Return a message as a model would write it."""
        ...

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        """Return the tools and how to call them, for a system prompt."""
        ...


def decode_json(text: str, start: int = 0) -> tuple[object, int] | None:
    """Decode the JSON value at ``start`` after spaces, and return it with its end; None without one.

    Numbers that JSON does not have (NaN, Infinity, 1e999) make it none.
    """
    try:
        return _DECODER.raw_decode(text, space_after(text, start))
    except (ValueError, RecursionError):
        return None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        _no_number(text)
    return value


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_finite)


def space_after(text: str, start: int) -> int:
    """Return where the white space that begins at ``start`` ends."""
    space = _SPACE.match(text, start)
    return space.end() if space else start


def call_of(value: object, number: int) -> ToolCall | None:
    """Return the call that a JSON object stands for; None when it stands for none."""
    if not isinstance(value, dict):
        return None
    given: object = next((value[key] for key in _CALL_KEYS if value.get(key) is not None), {})
    if not isinstance(given, dict | str):
        return None
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    return named_call(name, given, number)


def named_call(name: object, arguments: dict[str, object] | str, number: int) -> ToolCall | None:
    """Return a call with an id of nine digits, which the strictest templates require.

    None where the name is none, or the arguments are nested too deeply to be rendered again.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        return None
    # Arguments stay text as the model wrote them: the environment reports errors in them.
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except RecursionError:
        return None
    if _is_deep(text):
        return None
    # The model's JSON can escape a lone surrogate, which no request can carry.
    text = text.encode("utf-8", "replace").decode()
    return ToolCall(id=f"{number:09d}", function=FunctionCall(name=name, arguments=text))


def _is_deep(text: str) -> bool:
    """Return whether JSON has more than ``MOST_NESTED`` levels; brackets in strings are none."""
    if text.count("[") + text.count("{") <= MOST_NESTED:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_QUOTED.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_NESTED:
            return True
    return False


def message_of(text: str, content: str = "", calls: Sequence[ToolCall] = ()) -> Message:
    """Return the assistant's message of a sampled text: ``content`` beside ``calls``, or the text as it is.

    A text without calls, or with more than a message may have, stays text. A content of nothing but space
    is none.
    """
    if not 0 < len(calls) <= MOST_TOOL_CALLS:
        return Message(role="assistant", content=text)
    return Message(role="assistant", content=content.strip() or None, tool_calls=tuple(calls))


def arguments_of(call: ToolCall) -> object:
    """Return the arguments as a value, or as text when they are not JSON."""
    given = call.function.arguments
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given or "{}", strict=False)
    except (ValueError, RecursionError):
        return given


def listed(tools: Iterable[Tool]) -> str:
    """Return the tools' schemas, one per line."""
    return "\n".join(json.dumps(tool.model_dump(mode="json"), ensure_ascii=False) for tool in tools)
