"""Where an assistant's turn ends in a rendered conversation, and what the template puts behind it.

A made-up turn stands for the real one, so no turn is ever rendered, or tokenised, a second time. Its end is
found by rendering it twice, alone and with an answer: up to its end both are alike.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from sandbox_contract.messages import FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from transformers import PreTrainedTokenizerBase

__all__ = ["HEARD", "SAID", "TOOL_NAME", "Exchange", "Frame", "Marks", "calling", "spoken", "tool_answer"]

SAID = "WHAT-WAS-SAID"
"""Stands for the end of an assistant's turn."""
HEARD = "WHAT-WAS-HEARD"
TOOL_NAME = "made_up_tool"


@dataclass(frozen=True, slots=True)
class Frame:
    """How a template ends one kind of turn."""

    end: str
    """The token's text that ends the turn in a history; empty where the next role's token does."""
    ends: frozenset[str]
    """Tokens that a sampled turn of this kind ends with, by the template."""
    closing: str
    """What stands between the made-up word and the turn's end."""

    def behind(self, tail: str) -> str | None:
        """What follows the turn in the text behind the made-up word; None where no such turn is in it."""
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

    def frame(self, alone: str, followed: str, *, calls: bool, end: str = "") -> Frame:
        """The frame of a made-up turn.

        Args:
            alone: what follows the made-up word where nothing follows the turn.
            followed: what follows it where there is an answer.
            calls: the turn ends with calls, whose notation may hold added tokens of its own.
            end: the token that ends a turn without calls.
        """
        first, second = self._pieces(alone), self._pieces(followed)
        alike = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))]
        declared = next((piece for piece in alike if piece in self._ends or piece == end), "")
        known = [piece for piece in alike if piece in (self._special if calls else self._added)]
        if calls:
            # The notation of calls may hold added tokens, too; the one that ends the turn is the last.
            known = [piece for piece in known[::-1] if alone.rstrip().endswith(piece)]
        found = declared or next(iter(known), "")
        if found:
            return Frame(found, frozenset({found}), followed.partition(found)[0])
        here, there = (pieces[len(alike)] if len(pieces) > len(alike) else "" for pieces in (first, second))
        closing = "".join(alike)
        if here in self._special and there in self._special:
            return Frame(there, frozenset({here, there}), closing)
        return Frame("", frozenset(), alone)

    def behind(self, head: str, whole: str) -> str:
        """What a text has behind all that it shares with another one; marks are not divided."""
        first, second = self._pieces(head), self._pieces(whole)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
        return "".join(second[alike:])

    def first(self, text: str) -> str:
        """The special token that a text begins with; empty where it begins with none."""
        piece = next(iter(self._pieces(text)), "")
        return piece if piece in self._special else ""

    def _pieces(self, text: str) -> list[str]:
        return [piece for piece in self._pattern.split(text) if piece] if self._pattern else [text]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A made-up exchange that ends with a turn, which ends with the made-up word."""

    messages: tuple[Message, ...]
    calls: bool


def spoken() -> Exchange:
    """A turn of plain words."""
    return Exchange((_ASKED, Message(role="assistant", content=SAID)), calls=False)


def calling(answers: Sequence[Message]) -> Exchange:
    """A turn with the calls that the answers of tools belong to; the last call holds the word."""
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
    return Exchange((_ASKED, Message(role="assistant", content=None, tool_calls=calls)), calls=True)


def tool_answer() -> Message:
    """A made-up answer of a tool."""
    return Message(role="tool", content=HEARD, tool_call_id="000000000", name=TOOL_NAME)


_ASKED = Message(role="user", content=".")
