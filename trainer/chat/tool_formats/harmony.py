"""Harmony, the notation of gpt-oss: messages in channels, calls addressed to ``functions.name``.

A turn holds several messages: thoughts in the channel ``analysis``, calls in ``commentary``, the answer in
``final``. Source: OpenAI's description of the harmony response format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import CLOSE, OPEN, thought_before

from .base import arguments_of, listed, message_of, named_call

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_START, _MESSAGE, _CHANNEL = "<|start|>", "<|message|>", "<|channel|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_PARAGRAPH = """\
# Tools

You may call these functions:
{tools}

To call one, write a message to it in the commentary channel, with a JSON object and nothing else:
<|channel|>commentary to=functions.name <|constrain|>json<|message|>{{...}}<|call|>"""


class HarmonyFormat:
    """Parse and render channels. A call that is not a JSON object leaves the whole message as text."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        if _MESSAGE not in text:
            return message_of(text)
        thoughts: list[str] = []
        said: list[str] = []
        calls: list[ToolCall] = []
        thinking = False
        for part in text.split(_START):
            head, mark, rest = part.partition(_MESSAGE)
            if not mark:
                if head.strip():
                    return message_of(text)
                continue
            body, ended = _body(rest)
            recipient = _RECIPIENT.search(head)
            thinking = not recipient and f"{_CHANNEL}analysis" in head and not ended
            if recipient:
                call = _call(recipient[1], body, first + len(calls))
                if call is None:
                    return message_of(text)
                calls.append(call)
            else:
                (thoughts if f"{_CHANNEL}analysis" in head else said).append(body)
        content = _content(thoughts, said, thinking=thinking)
        calls = [] if thinking else calls
        return message_of(text if calls else content, content, calls)

    def render(self, message: Message) -> str:
        thought, said = thought_before(message.content or "")
        parts = [f"{_CHANNEL}analysis{_MESSAGE}{thought}"] if thought is not None else []
        channel = "commentary" if message.tool_calls else "final"
        parts += [f"{_CHANNEL}{channel}{_MESSAGE}{said}"] if said or not parts else []
        calls = [_written(call) for call in message.tool_calls or ()]
        if calls and not said:
            parts = parts[:-1] if thought is None else parts
        return f"<|end|>{_START}assistant".join([*parts, *calls])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _body(rest: str) -> tuple[str, bool]:
    """Return a message's body, and whether a token of the notation ended it."""
    ends = [(found, end) for end in _ENDS if (found := rest.find(end)) >= 0]
    return (rest[: min(ends)[0]], True) if ends else (rest, False)


def _content(thoughts: Sequence[str], said: Sequence[str], *, thinking: bool) -> str:
    """Return thoughts in the common marks, then the content; an unfinished thought stays open."""
    thought = "\n".join(thoughts)
    if not thoughts:
        return "\n".join(said)
    return f"{OPEN}{thought}" if thinking and not said else f"{OPEN}{thought}{CLOSE}" + "\n".join(said)


def _call(recipient: str, body: str, number: int) -> ToolCall | None:
    try:
        arguments = json.loads(body or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    return named_call(recipient.removeprefix("functions."), arguments, number)


def _written(call: ToolCall) -> str:
    arguments = json.dumps(arguments_of(call), ensure_ascii=False)
    return f"{_CHANNEL}commentary to=functions.{call.function.name} <|constrain|>json{_MESSAGE}{arguments}"
