"""Split the messages of an episode into parts to display: prose, programs and tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainer.chat.tool_formats import TOOL_FORMATS
from trainer.chat.tool_formats.base import arguments_of

if TYPE_CHECKING:
    from sandbox_contract.messages import ToolCall

    from .figure import JsonTree


MOST_OF_A_PART = 6_000
"""Limit of characters."""
_TEXT = "text"
_AS_TEXT = "hermes"
"""Environments parse this notation in plain text."""
_FENCE = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def parts_of(role: str, content: str, tool_format: str) -> list[JsonTree]:
    """Return the parts of a message; only the model's messages are split."""
    if role != "assistant":
        return [{"text": _cut(content)}]
    format_name = _AS_TEXT if tool_format == _TEXT else tool_format
    message = TOOL_FORMATS[format_name].parse(content)
    text = message.content if isinstance(message.content, str) else ""
    return [*_fenced(text), *map(_called, message.tool_calls or ())] or [{"text": ""}]


def _fenced(text: str) -> Iterator[JsonTree]:
    end = 0
    for block in _FENCE.finditer(text):
        if before := text[end : block.start()].strip("\n"):
            yield {"text": _cut(before)}
        yield {"code": _cut(block[2].rstrip("\n")), "language": block[1]}
        end = block.end()
    if rest := text[end:].strip("\n"):
        yield {"text": _cut(rest)}


def _called(call: ToolCall) -> JsonTree:
    arguments = arguments_of(call)
    given = arguments if isinstance(arguments, dict) else {"": arguments}
    return {
        "call": call.function.name,
        "arguments": [[name, _cut(_plain(each))] for name, each in given.items()],
    }


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    if len(text) <= MOST_OF_A_PART:
        return text
    return f"{text[:MOST_OF_A_PART]}\n[... {len(text) - MOST_OF_A_PART:,} characters more]"
