"""Escape text that looks like a special token, so that message contents cannot end a turn.

Before rendering, such text in contents of all roles but the system is replaced by a number between two
private-use characters; when the rendered text is tokenized, it is encoded as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .thoughts import CLOSE, OPEN

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from sandbox_contract.messages import Message


_BEGIN, _END = "\ue000", "\ue001"
# Templates may render contents as JSON, in which the two characters can appear escaped.
_HIDDEN = re.compile(r"(?:\ue000|\\ue000)([0-9]+)(?:\ue001|\\ue001)")


class Literals:
    """The special tokens of one tokenizer and template, as text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, source: str) -> None:
        added = tokenizer.added_tokens_decoder.values()
        special = [str(token.content) for token in added if token.special]
        # Markers of the template's own frame, such as <tool_response>, which need not be special tokens.
        frame = [
            str(token.content)
            for token in added
            if not token.special and _is_mark(str(token.content), source)
        ]
        # The escape characters themselves come last, so that a content cannot forge an escape.
        self._texts = [*special, *frame, _BEGIN, _END]
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        spoken = _any_of([*special, _BEGIN, _END])
        # The marks of an assistant's thought are its own, even where they are special tokens.
        said = _any_of([text for text in (*special, _BEGIN, _END) if text not in (OPEN, CLOSE)])
        self._by_role = {"user": spoken, "assistant": said, "tool": _any_of(self._texts)}

    def hidden(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with such text escaped."""
        return [self._hide(message) for message in messages]

    def shown(self, rendered: str) -> str:
        """Return a rendered text without escapes."""
        return _HIDDEN.sub(lambda found: self._texts[int(found[1])], rendered)

    def encode(self, rendered: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the tokens of a rendered text, with escaped text encoded as ordinary text."""
        ids: list[int] = []
        for number, part in enumerate(_HIDDEN.split(rendered)):
            if number % 2 == 0:
                ids += encode(part) if part else []
            else:
                # Encode the text in two parts: no token spans them, so the special one is not recognised.
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
