"""Check that a rendered text holds its messages: templates silently drop what they do not support."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .thoughts import thought_of

if TYPE_CHECKING:
    from sandbox_contract.messages import Message


_MOST = 0.9
"""The share of a content's characters that must be present, by lines: templates trim, and drop switches."""


def missing(text: str, messages: Iterable[Message]) -> str:
    """Describe briefly which part of the messages is missing from the text; empty when all is there."""
    for message in messages:
        content = thought_of(message)[1] if message.role == "assistant" else message.content or ""
        if not _holds(text, content.strip()):
            return f"the content of a message of role {message.role!r}"
        for call in message.tool_calls or ():
            if call.function.name not in text:
                return f"a call of {call.function.name!r}"
    return ""


def _holds(text: str, content: str) -> bool:
    if content in text:
        return True
    if any(json.dumps(content, ensure_ascii=ascii)[1:-1] in text for ascii in (False, True)):
        return True
    lines = [line.strip() for line in content.splitlines()]
    found = sum(len(line) for line in lines if line in text)
    return found >= _MOST * sum(map(len, lines))
