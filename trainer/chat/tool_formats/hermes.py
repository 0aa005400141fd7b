"""``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``: Hermes, Qwen 2.5, Qwen 3 and many others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sandbox_contract.tool_prompt import tool_prompt
from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, call_of, decode_json, message_of, space_after

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_TAG = "<tool_call>"
_TAG_END = "</tool_call>"


class HermesFormat:
    """Tagged JSON. Environments parse this notation in plain text, too, and report errors in it: so one
    malformed call leaves the whole message as text, and every call gets its answer.
    """

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        calls: list[ToolCall] = []
        kept: list[str] = []
        end = 0
        while (start := said.find(_TAG, end)) >= 0:
            kept.append(said[end:start])
            decoded = decode_json(said, start + len(_TAG))
            call = call_of(decoded[0], first + len(calls)) if decoded else None
            if decoded is None or call is None:
                return message_of(text)
            calls.append(call)
            end = _closed(said, decoded[1])
        return message_of(text, thoughts + "".join(kept) + said[end:], calls)

    def render(self, message: Message) -> str:
        parts = [message.content] if message.content else []
        return "\n".join([*parts, *(tagged(call, "\n") for call in message.tool_calls or ())])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return tool_prompt(tool.model_dump(mode="json") for tool in tools)


def tagged(call: ToolCall, space: str) -> str:
    """Return a call between its tags, with ``space`` around the JSON."""
    body = {"name": call.function.name, "arguments": arguments_of(call)}
    return f"{_TAG}{space}{json.dumps(body, ensure_ascii=False)}{space}{_TAG_END}"


def _closed(text: str, position: int) -> int:
    """Return the position after the closing tag, if there is one: models omit it."""
    end = space_after(text, position)
    return end + len(_TAG_END) if text.startswith(_TAG_END, end) else position
