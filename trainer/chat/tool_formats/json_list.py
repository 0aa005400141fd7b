"""A JSON list of calls behind an opening mark: Granite 3, Phi-4-mini, Cohere Command, Nemotron Nano 2."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, call_of, decode_json, listed, message_of
from .markup import expect

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_PARAGRAPH = """\
# Tools

You may call one or more of these functions:
{tools}

To call functions, answer with a list that has a JSON object for each call:
{example}"""


@dataclass(frozen=True, slots=True)
class JsonListFormat:
    """``OPEN[{"name": ..., "arguments": {...}}]CLOSE``; one malformed call leaves all as text."""

    opens: tuple[str, ...]
    """Marks before the list; the first is written, all are read."""
    close: str = ""
    """Mark behind the list, which may be missing."""
    name_key: str = "name"
    arguments_key: str = "arguments"
    text_marks: tuple[str, ...] = ()
    """Marks around plain text, which are not part of it."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        found = [(said.find(mark), mark) for mark in self.opens if mark in said]
        if not found:
            bare = self._bare(said)
            return message_of(text) if bare == said else message_of(thoughts + bare)
        start, mark = min(found)
        calls = _listed_calls(said, start + len(mark), self.close, first)
        return message_of(text, thoughts + self._bare(said[:start]), calls)

    def render(self, message: Message) -> str:
        calls = [
            {self.name_key: call.function.name, self.arguments_key: arguments_of(call)}
            for call in message.tool_calls or ()
        ]
        listing = f"{self.opens[0]}{json.dumps(calls, ensure_ascii=False)}{self.close}" if calls else ""
        return f"{message.content or ''}{listing}"

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        call = f'{{"{self.name_key}": "<function>", "{self.arguments_key}": {{...}}}}'
        example = f"{self.opens[0]}[{call}]{self.close}"
        return _PARAGRAPH.format(tools=listed(tools), example=example)

    def _bare(self, text: str) -> str:
        for mark in self.text_marks:
            text = text.replace(mark, "")
        return text


def _listed_calls(text: str, start: int, close: str, first: int) -> list[ToolCall]:
    decoded = decode_json(text, start)
    if decoded is None or not isinstance(decoded[0], list):
        return []
    end = (expect(text, decoded[1], close) if close else None) or decoded[1]
    calls = [call_of(value, first + index) for index, value in enumerate(decoded[0])]
    known = [call for call in calls if call is not None]
    return known if len(known) == len(calls) and not text[end:].strip() else []


GRANITE = JsonListFormat(("<|tool_call|>", "<tool_call>"))
"""Granite 3."""
PHI4_MINI = JsonListFormat(("<|tool_call|>", "functools"), "<|/tool_call|>")
COHERE = JsonListFormat(
    ("<|START_ACTION|>",),
    "<|END_ACTION|>",
    name_key="tool_name",
    arguments_key="parameters",
    text_marks=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
)
"""Command R7B, Command A."""
NEMOTRON_V2 = JsonListFormat(("<TOOLCALL>",), "</TOOLCALL>")
"""Nemotron Nano 2 and Llama-Nemotron."""
