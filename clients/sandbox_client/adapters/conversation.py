"""Conversions between the service's chat messages and the plain texts of frameworks without messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from sandbox_contract.messages import FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import JsonValue

Words: TypeAlias = "str | Mapping[str, JsonValue]"
"""An action: the text of an assistant message, or the whole message."""


def text_of(messages: Iterable[Message]) -> str:
    """Return the contents of messages as one text, with an empty line between two."""
    return "\n\n".join(message.content for message in messages if message.content)


def assistant_message(words: Words) -> Message:
    """Return the assistant message that an action stands for.

    Raises pydantic.ValidationError for a mapping that is not a message.
    """
    if isinstance(words, str):
        return Message(role="assistant", content=words)
    return Message.model_validate({"role": "assistant", **words})


def tool_call_message(name: str, arguments: Mapping[str, object], call_id: str = "call_0") -> Message:
    """Return an assistant message with a single tool call."""
    call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=json.dumps(arguments)))
    return Message(role="assistant", tool_calls=(call,))
