"""Calls as JSON between special tokens of their own: DeepSeek V3, R1 and V3.1, Kimi K2."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, decode_json, listed, message_of, named_call
from .markup import expect

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_PARAGRAPH = """\
# Tools

You may call one or more of these functions:
{tools}

To call functions, end your answer with calls in this form:
{example}"""


@dataclass(frozen=True, slots=True)
class SectionFormat:
    """A section of calls; each has its name, and its arguments as a JSON object.

    Text after the section is kept as content. The section's own end may be missing, since models stop before
    it.
    """

    section: str
    section_end: str
    call: str
    before_name: str
    """Text before the name, if any."""
    before_arguments: tuple[str, ...]
    """Text between name and arguments; the first is written, all are read."""
    after_arguments: tuple[str, ...]
    named: Callable[[str], str]
    """Extracts the function's name from the text in its place."""
    numbered: bool = False
    """Names are written with a prefix and the call's number."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        before, tag, rest = said.partition(self.section)
        if not tag:
            return message_of(text)
        calls: list[ToolCall] = []
        position = 0
        while (start := expect(rest, position, self.call)) is not None:
            read = self._call(rest, start, first + len(calls))
            if read is None:
                return message_of(text)
            calls.append(read[0])
            position = read[1]
        end = expect(rest, position, self.section_end)
        if end is None and rest[position:].strip():
            return message_of(text)
        behind = rest[end:] if end is not None else ""
        return message_of(text, thoughts + before + behind, calls)

    def render(self, message: Message) -> str:
        content = message.content or ""
        if not message.tool_calls:
            return content
        calls = "".join(self._written(number, call) for number, call in enumerate(message.tool_calls))
        return f"{content}{self.section}{calls}{self.section_end}"

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        name = self._name(0, "function_name")
        call = f"{self.call}{name}{self.before_arguments[0]}{{...}}{self.after_arguments[0]}"
        example = f"{self.section}{call}{self.section_end}"
        return _PARAGRAPH.format(tools=listed(tools), example=example)

    def _call(self, text: str, start: int, number: int) -> tuple[ToolCall, int] | None:
        begin = start + len(self.before_name) if text.startswith(self.before_name, start) else start
        ends = [
            (found, mark)
            for mark in self.before_arguments
            if (found := text.find(mark, begin, begin + 512)) >= 0
        ]
        if not ends:
            return None
        name_end, mark = min(ends, key=lambda end: (end[0], -len(end[1])))
        decoded = decode_json(text, name_end + len(mark))
        if decoded is None or not isinstance(decoded[0], dict):
            return None
        closed = (expect(text, decoded[1], close) for close in self.after_arguments)
        end = next((each for each in closed if each is not None), None)
        call = named_call(self.named(text[begin:name_end].strip()), decoded[0], number)
        return (call, end) if call is not None and end is not None else None

    def _written(self, number: int, call: ToolCall) -> str:
        arguments = json.dumps(arguments_of(call), ensure_ascii=False)
        name = self._name(number, call.function.name)
        return f"{self.call}{name}{self.before_arguments[0]}{arguments}{self.after_arguments[0]}"

    def _name(self, number: int, name: str) -> str:
        return f"functions.{name}:{number}" if self.numbered else f"{self.before_name}{name}"


def _without_number(written: str) -> str:
    """Return ``f`` for ``functions.f:0``."""
    return written.removeprefix("functions.").rpartition(":")[0] or written


_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>")
_SEPARATOR, _CALL_END = "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"

DEEPSEEK_V3 = SectionFormat(
    *_DEEPSEEK, f"function{_SEPARATOR}", ("\n```json\n",), (f"\n```{_CALL_END}", f"```{_CALL_END}"), str
)
"""DeepSeek V3 and R1: the arguments are a fenced block."""
DEEPSEEK_V31 = SectionFormat(*_DEEPSEEK, "", (_SEPARATOR,), (_CALL_END,), str)
KIMI_K2 = SectionFormat(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "",
    ("<|tool_call_argument_begin|>",),
    ("<|tool_call_end|>",),
    _without_number,
    numbered=True,
)
