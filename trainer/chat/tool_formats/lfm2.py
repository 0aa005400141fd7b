"""``<|tool_call_start|>[f(word="a")]<|tool_call_end|>``: LFM2 and later; a list of Python calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import listed, message_of
from .pythonic import python_calls, written_calls

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_PARAGRAPH = """\
# Tools

List of tools: [{tools}]

To call tools, write a list of Python calls with named arguments:
<|tool_call_start|>[function_name(argument="value")]<|tool_call_end|>"""


class Lfm2Format:
    """One list between its marks, with text before or after it."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        before, tag, rest = said.partition(_OPEN)
        listing, _, behind = rest.partition(_CLOSE)
        calls = _calls(listing.strip(), first) if tag and _OPEN not in behind else []
        return message_of(text, thoughts + before + behind, calls)

    def render(self, message: Message) -> str:
        calls = written_calls(message.tool_calls or ())
        return (
            f"{message.content or ''}{_OPEN}{calls}{_CLOSE}" if message.tool_calls else message.content or ""
        )

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools).replace("\n", ", "))


def _calls(listing: str, first: int) -> list[ToolCall]:
    # Templates of LFM2.5 write newlines within quotes unescaped, which is not valid Python.
    return python_calls(listing, first) or python_calls(listing.replace("\n", "\\n"), first)
