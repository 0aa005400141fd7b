"""``[TOOL_CALLS] [{"name": ..., "arguments": {...}}]``; ``[TOOL_CALLS]name[ARGS]{...}`` of newer models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, call_of, decode_json, listed, message_of, named_call

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_TAG = "[TOOL_CALLS]"
# An id has no spaces: with them, the pattern would backtrack in quadratic time over a run of spaces.
_NAMED = re.compile(r"\s*([^\s\[\]{}]+)(?:\[CALL_ID\][^\s\[\]{}]*)?(?:\[ARGS\])?\s*(?=\{)")
_PARAGRAPH = """\
[AVAILABLE_TOOLS]
{tools}
[/AVAILABLE_TOOLS]

To call functions, write [TOOL_CALLS] and a list with a JSON object for each call:
[TOOL_CALLS] [{{"name": "<function>", "arguments": {{...}}}}]"""


class MistralFormat:
    """Calls behind ``[TOOL_CALLS]``; all of them are well-formed, or the message stays text."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        before, tag, after = said.partition(_TAG)
        calls = (_of_list(after, first) or _of_names(after, first)) if tag else []
        return message_of(text, thoughts + before, calls)

    def render(self, message: Message) -> str:
        bodies = [
            {"name": call.function.name, "arguments": arguments_of(call)} for call in message.tool_calls or ()
        ]
        calls = f"{_TAG} {json.dumps(bodies, ensure_ascii=False)}" if bodies else ""
        return f"{message.content or ''}{calls}"

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _of_list(text: str, first: int) -> list[ToolCall]:
    decoded = decode_json(text)
    if decoded is None or not isinstance(decoded[0], list) or text[decoded[1] :].strip():
        return []
    calls = [call_of(value, first + index) for index, value in enumerate(decoded[0])]
    known = [call for call in calls if call is not None]
    return known if len(known) == len(calls) else []


def _of_names(text: str, first: int) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for part in text.split(_TAG):
        named = _NAMED.match(part)
        decoded = decode_json(part, named.end()) if named else None
        if named is None or decoded is None or part[decoded[1] :].strip():
            return []
        value = decoded[0]
        call = named_call(named.group(1), value, first + len(calls)) if isinstance(value, dict) else None
        if call is None:
            return []
        calls.append(call)
    return calls
