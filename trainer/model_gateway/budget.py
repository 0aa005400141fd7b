"""Limit what an agent's session may use of the model, and end it with an ordinary message.

An agent that met its limit gets a short answer without tool calls, which is not recorded: agents stop at it,
where an error would make many of them repeat the call until their own time is over. An agent that goes on
calling, or whose calls are refused again and again, is answered 409 at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.types import StopReason

from .calls import CallError

ENDED = "The episode has ended."
"""The answer to calls behind a limit."""
MOST_ENDED_ANSWERS = 8
"""Calls behind a limit that are answered; further ones are refused."""
MOST_REFUSALS = 64
"""Calls in a row that may fail; further ones are refused without a look at them."""
_LEAST_TURN = 16
"""Tokens that an answer needs to hold an action; with less room, the context is full."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one session."""

    turns: int
    """Answered calls."""
    context_tokens: int
    """Tokens of one call, prompt and sampled."""
    turn_tokens: int
    """Sampled tokens of one call."""
    sampled_tokens: int | None = None
    """Sampled tokens of the whole session. Calls in progress at the same time may together pass it."""
    seconds: float = math.inf
    """From the session's opening on."""
    turn_seconds: float = 240.0
    """Sampling time of one call, which is then answered with the tokens so far."""
    concurrent_calls: int = 16
    """Calls in progress; further ones are answered 429."""


class Budget:
    """The limits of a session, and what was used of them."""

    def __init__(self, limits: SessionLimits, opened_at: float) -> None:
        """``opened_at``: seconds of the clock that ``begin`` and ``seconds_left`` are given."""
        self.limits = limits
        self.reached: StopReason | None = None
        """The first limit that a call met."""
        self._deadline = opened_at + limits.seconds
        self.answered = 0
        """Calls answered."""
        self._in_progress = 0
        self._sampled = 0
        self._ended_answers = 0
        self._refusals = 0

    def check(self) -> None:
        """Raise CallError(409) where too many calls in a row were refused."""
        if self._refusals >= MOST_REFUSALS:
            detail = f"the last {self._refusals} calls of this session failed; it takes no more"
            raise CallError(409, "too_many_errors", detail)

    def refuse(self) -> None:
        """Count a call that failed, or that was not understood."""
        self._refusals += 1

    def begin(self, now: float) -> bool:
        """Count a call as in progress, and return True; False if a limit has been reached.

        Raises CallError(429) where too many are in progress.
        """
        if self._in_progress >= self.limits.concurrent_calls:
            detail = f"{self._in_progress} calls of this session are in progress, which is its limit"
            raise CallError(429, "too_many_calls", detail)
        if self.answered + self._in_progress >= self.limits.turns:
            self.end_episode(StopReason.HORIZON)
        elif now >= self._deadline:
            self.end_episode(StopReason.TIME_LIMIT)
        elif self._sampled_left() <= 0:
            self.end_episode(StopReason.CONTEXT_FULL)
        if self.reached is not None:
            return False
        self._in_progress += 1
        return True

    def count_answer(self, sampled: int) -> None:
        """Count an answer, and its sampled tokens."""
        self.answered += 1
        self._sampled += sampled
        self._refusals = 0

    def finish(self) -> None:
        """Count a call as no longer in progress, however it ended."""
        self._in_progress -= 1

    def end_episode(self, reason: StopReason) -> None:
        """End the session: further calls get the message of its end."""
        self.reached = self.reached or reason

    def count_ended_answer(self) -> None:
        """Count an answer behind a limit. Raises CallError(409) where there were too many."""
        if self._ended_answers >= MOST_ENDED_ANSWERS:
            detail = f"the episode has ended ({self.reached}), as earlier answers have said"
            raise CallError(409, "session_ended", detail)
        self._ended_answers += 1

    def room(self, prompt: int, asked: int | None) -> int:
        """Return the tokens that the answer to a prompt of so many tokens may have; 0 for too few."""
        room = min(self.limits.context_tokens - prompt, self.limits.turn_tokens)
        if room < min(_LEAST_TURN, self.limits.turn_tokens):
            return 0
        left = int(min(room, max(1, self._sampled_left())))
        return left if asked is None else min(left, asked)

    def seconds_left(self, now: float) -> float:
        """Return the sampling time that a call may have, 0 at least."""
        return max(0.0, min(self.limits.turn_seconds, self._deadline - now))

    def _sampled_left(self) -> float:
        most = self.limits.sampled_tokens
        return math.inf if most is None else most - self._sampled
