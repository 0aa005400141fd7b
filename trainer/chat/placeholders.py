"""Placeholders for parts of messages, which show what a template makes of these parts.

Each is a random text that no message contains: it is in a rendered text only where the template printed it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .thoughts import apart, thought_of

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, ToolCall

_SHORT = 32
"""Characters of a content that can be elsewhere in a conversation; sentences rarely are."""


def without_arguments(messages: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
    """Return messages with placeholders as the arguments of calls, and the called names by placeholder."""
    fresh = _placeholders()
    names: dict[str, str] = {}

    def replaced(call: ToolCall) -> ToolCall:
        names[mark := next(fresh)] = call.function.name
        function = call.function.model_copy(update={"arguments": json.dumps({"said": mark})})
        return call.model_copy(update={"function": function})

    changed = [
        message.model_copy(update={"tool_calls": tuple(map(replaced, message.tool_calls))})
        if message.tool_calls
        else message
        for message in messages
    ]
    return changed, names


def without_words(messages: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
    """Return messages with placeholders for what the assistant says, and the texts by placeholder.

    Thoughts before it stay. A turn that says nothing gets one for the empty text; calls alone get none.
    """
    fresh = _placeholders()
    texts: dict[str, str] = {}
    changed: list[Message] = []
    for message in messages:
        said = thought_of(message)[1]
        if message.role == "assistant" and (said or not message.tool_calls):
            texts[mark := next(fresh)] = said
            message = _saying(mark, message, said)
        changed.append(message)
    return changed, texts


def without_short_contents(messages: Sequence[Message]) -> tuple[list[Message], dict[str, str]]:
    """Return messages with placeholders for short contents, and the roles by placeholder.

    A short text, such as the answer ``2``, can be found in a rendered conversation that lacks its message.
    """
    fresh = _placeholders()
    roles: dict[str, str] = {}
    changed: list[Message] = []
    for message in messages:
        content = _content(message)
        if _is_short(content):
            roles[mark := next(fresh)] = message.role
            message = _saying(mark, message, content)
        changed.append(message)
    return changed, roles


def shape_of(messages: Sequence[Message]) -> tuple[tuple[str, bool, bool, bool], ...]:
    """Return of each message the role, and whether it has a thought, a content, and a short one."""
    return tuple(
        (message.role, thought_of(message)[0] is not None, bool(content), _is_short(content))
        for message in messages
        for content in (_content(message),)
    )


def _content(message: Message) -> str:
    return thought_of(message)[1] if message.role == "assistant" else message.content or ""


def _is_short(content: str) -> bool:
    return 0 < len(content.strip()) <= _SHORT


def _saying(mark: str, message: Message, said: str) -> Message:
    """Return a message with a placeholder for what it says behind a thought."""
    before = (message.content or "").removesuffix(said) if said else ""
    given = message if said else apart(message)
    return given.model_copy(update={"content": before + mark})


def _placeholders() -> Iterator[str]:
    secret = secrets.token_hex(8)
    number = 0
    while True:
        yield f"x{secret}x{number}x"
        number += 1
