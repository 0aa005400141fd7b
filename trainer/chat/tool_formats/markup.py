"""Helpers of notations with tags around each argument: the end of a value, and its type."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, decode_json, message_of, space_after
from .schema_types import argument_types, types_of_value

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_NO_TEXT = frozenset({"integer", "number", "boolean", "object", "array", "null"})
_BOOLEANS = {"true": True, "false": False}


def message_with_calls(
    text: str, opening: str, read: Callable[[str, int, int], tuple[Sequence[ToolCall], int] | None]
) -> Message:
    """Parse a text with calls after an opening tag; all of it stays text if one call is malformed.

    ``read`` gets the text without its thoughts, the end of an opening tag, and the number of calls before
    it; it returns the calls at that position and the end of their closing tag, or None.
    """
    thoughts, said = split_thoughts(text)
    calls: list[ToolCall] = []
    kept: list[str] = []
    end = 0
    while (start := said.find(opening, end)) >= 0:
        kept.append(said[end:start])
        found = read(said, start + len(opening), len(calls))
        if found is None:
            return message_of(text)
        calls += found[0]
        end = found[1]
    return message_of(text, thoughts + "".join(kept) + said[end:], calls)


def expect(text: str, position: int, tag: str) -> int | None:
    """Return the end of a tag at this position after white space; None where there is something else."""
    start = space_after(text, position)
    return start + len(tag) if text.startswith(tag, start) else None


def value_until(text: str, start: int, close: str, followers: Sequence[str]) -> tuple[str, int] | None:
    """Return the value from ``start`` to its closing tag, and its end; None where it is never closed.

    A closing tag counts where one of ``followers`` comes next, so a value may hold the tag as text.
    """
    position = start
    while (found := text.find(close, position)) >= 0:
        end = found + len(close)
        behind = space_after(text, end)
        if any(text.startswith(follower, behind) for follower in followers):
            return text[start:found], end
        position = max(end, behind)
    return None


def types_of(tools: Iterable[Tool], name: str) -> dict[str, frozenset[str]]:
    """Return the JSON types of a tool's arguments by name; empty for an unknown tool."""
    return next(
        (argument_types(tool.function.parameters) for tool in tools if tool.function.name == name), {}
    )


def typed(value: str, kinds: frozenset[str]) -> object:
    """Convert the text of an argument to a value of one of some JSON types.

    It stays text if the type is string, and is decoded as JSON if it is another. If both are possible, as for
    an optional text, a value of the others is decoded. Without a type, JSON other than strings is decoded:
    templates write strings unquoted and all else as JSON, but some spell booleans ``True`` and ``False``.
    """
    if kinds and not kinds & _NO_TEXT:
        return value
    if "boolean" in kinds and (truth := _BOOLEANS.get(value.strip().lower())) is not None:
        return truth
    decoded = decode_json(value)
    if decoded is None or value[decoded[1] :].strip() or isinstance(decoded[0], str):
        return value
    if "string" in kinds and not kinds & types_of_value(decoded[0]):
        return value
    return decoded[0]


def items(call: ToolCall) -> Iterable[tuple[str, object]]:
    """Return the arguments of a call by name."""
    arguments = arguments_of(call)
    return arguments.items() if isinstance(arguments, dict) else ()


def spelt(value: object) -> str:
    """Return an argument as templates write it: text unquoted, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
