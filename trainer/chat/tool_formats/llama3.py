"""``{"name": ..., "parameters": {...}}``, several with ``;`` between: Llama 3.1 to 4."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, call_of, decode_json, listed, message_of

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_PYTHON_TAG = "<|python_tag|>"
_PYTHON_START, _PYTHON_END = "<|python_start|>", "<|python_end|>"
_BETWEEN = re.compile(r"[ \t\r\n;]*")
_PARAGRAPH = """\
# Tools

You may call one or more of these functions:
{tools}

To call functions, answer with nothing but a JSON object for each, several with ; between them:
{{"name": "<function>", "parameters": {{...}}}}"""


class Llama3Format:
    """JSON objects and nothing else, or after a mark: an object amid prose is an example.

    The mark is ``<|python_tag|>``. Llama 4 has ``<|python_start|>`` and ``<|python_end|>``; its template
    puts the content between the two and the calls after them.
    """

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        words, written = _divided(said)
        return message_of(text, thoughts + words, _calls(written, first))

    def render(self, message: Message) -> str:
        calls = "; ".join(_written(call) for call in message.tool_calls or ())
        content = message.content or ""
        return f"{content}{_PYTHON_TAG}{calls}" if content and calls else content or calls

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _divided(said: str) -> tuple[str, str]:
    """Return the content beside the calls, and where the calls must be."""
    before, tag, after = said.partition(_PYTHON_TAG)
    if tag:
        return before, after
    before, start, rest = said.partition(_PYTHON_START)
    if not start:
        return "", said
    within, _, behind = rest.partition(_PYTHON_END)
    return (before + within, behind) if behind.strip() else (before, within)


def _calls(text: str, first: int) -> list[ToolCall]:
    """Return the calls of a text that consists of calls; none of another text."""
    calls: list[ToolCall] = []
    position = _behind_separators(text, 0)
    while position < len(text):
        decoded = decode_json(text, position)
        call = call_of(decoded[0], first + len(calls)) if decoded else None
        if decoded is None or call is None:
            return []
        calls.append(call)
        position = _behind_separators(text, decoded[1])
    return calls


def _behind_separators(text: str, position: int) -> int:
    separators = _BETWEEN.match(text, position)
    return separators.end() if separators else position


def _written(call: ToolCall) -> str:
    body = {"name": call.function.name, "parameters": arguments_of(call)}
    return json.dumps(body, ensure_ascii=False)
