"""Placeholders for parts of an assistant's messages, which show what a template makes of these parts.

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
            before = (message.content or "").removesuffix(said) if said else ""
            given = message if said else apart(message)
            texts[mark := next(fresh)] = said
            message = given.model_copy(update={"content": before + mark})
        changed.append(message)
    return changed, texts


def _placeholders() -> Iterator[str]:
    secret = secrets.token_hex(8)
    number = 0
    while True:
        yield f"x{secret}x{number}x"
        number += 1
