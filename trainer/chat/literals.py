"""Text that looks like a special token and is none: what is said in an episode must not end a turn.

Before a conversation is rendered, such text in a content of anyone but the system is hidden behind a number
between two private-use characters; when the rendered text is tokenised, it is spelt out as ordinary text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedTokenizerBase

    from sandbox_contract.messages import Message

__all__ = ["Literals"]

_BEGIN, _END = "\ue000", "\ue001"
# Templates may write contents as JSON, where the two characters can appear escaped.
_HIDDEN = re.compile(r"(?:\ue000|\\ue000)([0-9]+)(?:\ue001|\\ue001)")


class Literals:
    """The special tokens of one tokenizer and template, as text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, source: str) -> None:
        added = tokenizer.added_tokens_decoder.values()
        special = [str(token.content) for token in added if token.special]
        # Marks of the template's frame, such as <tool_response>, which need not be special tokens.
        frame = [
            str(token.content)
            for token in added
            if not token.special and _is_mark(str(token.content), source)
        ]
        # The hiding characters themselves come last: a content cannot name a number of its own.
        self._texts = [*special, *frame, _BEGIN, _END]
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        spoken = _any_of([*special, _BEGIN, _END])
        self._by_role = {"user": spoken, "assistant": spoken, "tool": _any_of(self._texts)}

    def hidden(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with such text hidden."""
        return [self._hide(message) for message in messages]

    def encode(self, rendered: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Tokens of a rendered text, what is hidden spelt out."""
        ids: list[int] = []
        for number, part in enumerate(_HIDDEN.split(rendered)):
            if number % 2 == 0:
                ids += encode(part) if part else []
            else:
                # No token spans the two parts, so the tokenizer cannot recognise the special one.
                text = self._texts[int(part)]
                ids += encode(text[:1]) + (encode(text[1:]) if text[1:] else [])
        return ids

    def _hide(self, message: Message) -> Message:
        pattern = self._by_role.get(message.role)
        content = message.content or ""
        if pattern is None or not pattern.search(content):
            return message
        shown = pattern.sub(lambda found: f"{_BEGIN}{self._numbers[found[0]]}{_END}", content)
        return message.model_copy(update={"content": shown})


def _is_mark(text: str, source: str) -> bool:
    return len(text) > 2 and text[0] in "<[" and text in source


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
