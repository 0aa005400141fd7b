"""Find where an assistant's turn ends in a rendered conversation, and what the template appends.

A placeholder turn stands for the real one, so no turn is rendered or tokenized twice. Its end is found by
rendering it twice, alone and with an answer: up to its end both are equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from sandbox_contract.messages import FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


SAID = "WHAT-WAS-SAID"
"""Placeholder for the end of an assistant's turn."""
ANSWERED = "WHAT-WAS-ANSWERED"
TOOL_NAME = "made_up_tool"


@dataclass(frozen=True, slots=True)
class TurnEnding:
    """The way in which a template ends one kind of turn."""

    end: str
    """Text of the token that ends the turn in a history; empty where the next role's token does."""
    ends: frozenset[str]
    """Tokens that a sampled turn of this kind ends with, according to the template."""
    closing: str
    """Text between the placeholder and the turn's end."""

    def behind(self, tail: str) -> str | None:
        """Return the text after the turn, given the text after the placeholder; None without such a turn."""
        if self.end:
            _, end, rest = tail.partition(self.end)
            return rest if end else None
        return tail.removeprefix(self.closing) if tail.startswith(self.closing) else None


class Marks:
    """A tokenizer's added tokens, found in text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, ends: Collection[str]) -> None:
        added = list(tokenizer.added_tokens_decoder.values())
        texts = sorted((str(token.content) for token in added), key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None
        self._added = frozenset(texts)
        self._special = frozenset(str(token.content) for token in added if token.special)
        self._ends = frozenset(ends)

    def turn_ending(self, alone: str, followed: str, *, calls: bool, end: str = "") -> TurnEnding:
        """Return how a placeholder turn ends.

        Args:
            alone: the text after the placeholder when nothing follows the turn.
            followed: the text after it when an answer follows.
            calls: the turn ends with calls, whose notation may contain added tokens of its own.
            end: the token that ends a turn without calls.
        """
        first, second = self._pieces(alone), self._pieces(followed)
        alike = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]
        declared = next((piece for piece in alike if piece in self._ends or piece == end), "")
        known = [piece for piece in alike if piece in (self._special if calls else self._added)]
        if calls:
            # The notation of calls may contain added tokens, too; the last one ends the turn.
            known = [piece for piece in known[::-1] if alone.rstrip().endswith(piece)]
        found = declared or next(iter(known), "")
        if found:
            return TurnEnding(found, frozenset({found}), followed.partition(found)[0])
        here, there = (pieces[len(alike)] if len(pieces) > len(alike) else "" for pieces in (first, second))
        closing = "".join(alike)
        if here in self._special and there in self._special:
            return TurnEnding(there, frozenset({here, there}), closing)
        return TurnEnding("", frozenset(), alone)

    def behind(self, head: str, whole: str) -> str:
        """Return the part of a text after its common prefix with another one, without splitting added
        tokens.
        """
        first, second = self._pieces(head), self._pieces(whole)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
        return "".join(second[alike:])

    def first(self, text: str) -> str:
        """Return the special token that a text begins with; empty where it begins with none."""
        piece = next(iter(self._pieces(text)), "")
        return piece if piece in self._special else ""

    def _pieces(self, text: str) -> list[str]:
        return [piece for piece in self._pattern.split(text) if piece] if self._pattern else [text]


@dataclass(frozen=True, slots=True)
class PlaceholderExchange:
    """A placeholder exchange that ends with a turn, which ends with the placeholder."""

    messages: tuple[Message, ...]
    calls: bool


def spoken() -> PlaceholderExchange:
    """Return a turn of plain text."""
    return PlaceholderExchange((_ASKED, Message(role="assistant", content=SAID)), calls=False)


def calling(answers: Sequence[Message]) -> PlaceholderExchange:
    """Return a turn with the calls that the tools' answers belong to; the last call holds the placeholder."""
    calls = tuple(
        ToolCall(
            id=answer.tool_call_id,
            function=FunctionCall(
                name=answer.name or TOOL_NAME,
                arguments=json.dumps({"said": SAID if answer is answers[-1] else "."}),
            ),
        )
        for answer in answers
    )
    return PlaceholderExchange(
        (_ASKED, Message(role="assistant", content=None, tool_calls=calls)), calls=True
    )


def tool_answer() -> Message:
    """Return a placeholder answer of a tool."""
    return Message(role="tool", content=ANSWERED, tool_call_id="000000000", name=TOOL_NAME)


_ASKED = Message(role="user", content=".")
