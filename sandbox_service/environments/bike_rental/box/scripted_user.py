"""A customer that follows a script: tells what it is asked for, agrees to what it wants, and stops.

The script has ``opening``, ``facts`` (``about``: words that a question for it has; ``say``: the answer) and
 ``wishes``, one after another: ``say`` (the request), ``facts`` of its own, and ``values``, which a
question for consent has to name. The same messages get the same answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_MOST_READ = 4000
"""Characters of a message that the customer reads."""
_CONSENT = re.compile(
    r"\b(?:go ahead|proceed|confirm|agree|shall i|should i|may i|would you like me to|do you want me to|"
    r"is that (?:ok|okay|right|correct|fine)|yes or no)\b"
)
_REQUEST = re.compile(r"\?|\b(?:please|tell me|give me|need|provide|may i have|let me know)\b")
_MORE = re.compile(r"\b(?:anything else|something else|any other|further help|more i can do)\b")
_SETTLED = re.compile(
    r"\b(?:done|completed|booked|cancelled|canceled|changed|updated|reported|refunded|transferred|recorded|"
    r"cannot|can't|can not|unable|not possible|not allowed|declined|refuse|sorry|goodbye)\b"
)


class ReplyKind(StrEnum):
    """The meaning of what the customer says."""

    FACTS = "facts"
    """The customer answers questions."""
    CONSENT = "consent"
    """The customer agrees to what the agent has proposed."""
    WISH = "wish"
    """The customer makes a request, the next one or again the same."""
    VAGUE = "vague"
    """The customer does not agree, because the proposal does not name what matters."""
    END = "end"
    """The customer has nothing more to ask, and leaves."""


@dataclass(frozen=True, slots=True)
class UserReply:
    """One message of the customer, and its meaning."""

    text: str
    kind: ReplyKind


class ScriptedUser:
    """One customer in one conversation."""

    def __init__(self, script: JsonObject) -> None:
        self._script = script
        self._wish = 0

    def open(self) -> str:
        """Return the customer's first message."""
        return f"{self._script['opening']} {self._script['wishes'][0]['say']}"

    def reply(self, message: str) -> UserReply:
        """Answer a message of the agent."""
        words = message[:_MOST_READ].casefold()
        if _MORE.search(words):
            return self._next()
        if _CONSENT.search(words):
            return self._consent(words)
        told = self._facts(words) if _REQUEST.search(words) else []
        if told:
            return UserReply(" ".join(told), ReplyKind.FACTS)
        if _SETTLED.search(words):
            return self._next()
        return UserReply(f"I am not sure what you mean. {self._current['say']}", ReplyKind.WISH)

    @property
    def _current(self) -> JsonObject:
        wish: JsonObject = self._script["wishes"][self._wish]
        return wish

    def _next(self) -> UserReply:
        """Make the next request, or leave."""
        if self._wish + 1 >= len(self._script["wishes"]):
            return UserReply("No, that is all. Thank you, goodbye.", ReplyKind.END)
        self._wish += 1
        return UserReply(f"Yes, one more thing. {self._current['say']}", ReplyKind.WISH)

    def _consent(self, words: str) -> UserReply:
        missing = [value for value in self._current["values"] if not _names(words, value)]
        if not missing:
            return UserReply("Yes, please go ahead.", ReplyKind.CONSENT)
        told = self._facts(words)
        if told:
            # A question for details often offers to go on, too.
            return UserReply(" ".join(told), ReplyKind.FACTS)
        text = "I can only agree to something definite: name the bookings, bikes and dates that it is about."
        return UserReply(text, ReplyKind.VAGUE)

    def _facts(self, words: str) -> list[str]:
        known = [*self._script["facts"], *self._current["facts"]]
        return [fact["say"] for fact in known if any(_names(words, name) for name in fact["about"])]


def _names(words: str, name: str) -> bool:
    """Return whether a text has a name as words of its own."""
    return re.search(rf"(?<![\w-]){re.escape(name.casefold())}(?![\w-])", words) is not None
