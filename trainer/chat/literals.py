"""Escape text that looks like a special token, so that message contents cannot end a turn.

Before rendering, such text is replaced by a number between two random marks, which no message can spell and
JSON does not change: in contents of all roles but the system, in the thoughts and calls of the assistant, and
in the names and ids of tools' answers. When the rendered text is tokenized, it is encoded as ordinary text.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .thoughts import CLOSE, OPEN
from .tool_formats.base import arguments_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from sandbox_contract.messages import Message, ToolCall


_FIELDS = ("content", "reasoning_content", "reasoning")
_NAMES = ("name", "tool_call_id")


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
        self._texts = [*special, *frame]
        self._numbers = {text: number for number, text in enumerate(self._texts)}
        # A secret of this object: a fixed mark could be written by a model or a tool, and forge an escape.
        self._mark = f"x{secrets.token_hex(8)}x"
        self._hidden = re.compile(f"{self._mark}([0-9]+){self._mark}")
        spoken = self._spoken = _any_of(special)
        # The marks of an assistant's thought are its own, even where they are special tokens.
        said = _any_of([text for text in special if text not in (OPEN, CLOSE)])
        self._by_role = {"user": spoken, "assistant": said, "tool": _any_of(self._texts)}

    def hidden(self, messages: Sequence[Message], *, as_written: bool = False) -> list[Message]:
        """Return the messages with such text escaped; ``as_written`` leaves it in those of the assistant."""
        patterns = self._by_role | ({"assistant": _any_of(())} if as_written else {})
        return [self._hide(message, patterns.get(message.role)) for message in messages]

    def shown(self, rendered: str) -> str:
        """Return a rendered text without escapes."""
        return self._hidden.sub(lambda found: self._texts[int(found[1])], rendered)

    def encode(self, rendered: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the tokens of a rendered text, with escaped text encoded as ordinary text."""
        ids: list[int] = []
        for number, part in enumerate(self._hidden.split(rendered)):
            if number % 2 == 0:
                ids += encode(part) if part else []
            else:
                # Encode the text in two parts: no token spans them, so the special one is not recognised.
                text = self._texts[int(part)]
                ids += encode(text[:1]) + (encode(text[1:]) if text[1:] else [])
        return ids

    def _hide(self, message: Message, pattern: re.Pattern[str] | None) -> Message:
        if pattern is None:
            return message
        fields = [*((name, pattern) for name in _FIELDS), *((name, self._spoken) for name in _NAMES)]
        changed: dict[str, object] = {
            name: self._escaped(text, kind)
            for name, kind in fields
            if (text := getattr(message, name)) and kind.search(text)
        }
        calls = tuple(self._hide_call(call) for call in message.tool_calls or ())
        if calls != (message.tool_calls or ()):
            changed["tool_calls"] = calls
        return message.model_copy(update=changed) if changed else message

    def _hide_call(self, call: ToolCall) -> ToolCall:
        """Return a call with such text escaped, in its arguments also where JSON spells it otherwise."""
        name, number = (self._escaped(text, self._spoken) for text in (call.function.name, call.id or ""))
        if (name, number) != (call.function.name, call.id or ""):
            function = call.function.model_copy(update={"name": name})
            call = call.model_copy(update={"function": function, "id": number or call.id})
        given, read = call.function.arguments, arguments_of(call)
        try:
            hidden = self._hidden_value(read)
        except RecursionError:
            hidden = self._escaped(given if isinstance(given, str) else _json(given), self._spoken)
        if hidden == read:
            return call
        as_given = isinstance(hidden, str) or isinstance(given, dict)
        arguments = hidden if as_given else _json(hidden)
        function = call.function.model_copy(update={"arguments": arguments})
        return call.model_copy(update={"function": function})

    def _hidden_value(self, value: object) -> object:
        if isinstance(value, str):
            return self._escaped(value, self._spoken)
        if isinstance(value, list):
            return [self._hidden_value(each) for each in value]
        if isinstance(value, dict):
            return {self._hidden_value(key): self._hidden_value(each) for key, each in value.items()}
        return value

    def _escaped(self, text: str, pattern: re.Pattern[str]) -> str:
        return pattern.sub(lambda found: f"{self._mark}{self._numbers[found[0]]}{self._mark}", text)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_mark(text: str, source: str) -> bool:
    return len(text) > 2 and text[0] in "<[" and text in source


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of any of the texts; it matches nowhere without one."""
    texts = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, texts)) or "(?!)")
