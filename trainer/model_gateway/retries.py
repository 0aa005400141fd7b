"""Recognise the repetition of a call, so that it is answered again instead of sampled again.

Clients repeat a call whose answer they did not get. A repetition is recognised by its idempotency key, or by
the mark that the OpenAI and Anthropic SDKs set on a retry together with the same body. The same body without
a mark is a new call: an agent may sample twice from one history.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from .calls import CallError

if TYPE_CHECKING:
    from .calls import ModelReply

PendingReply: TypeAlias = "asyncio.Future[ModelReply]"

_MOST_KEPT = 64
"""Finished calls of a session that may be repeated."""
_KEPT_S = 600.0
_BACK_OFF_S = 60.0
"""Seconds after which no SDK repeats a call that failed."""


@dataclass(frozen=True, slots=True)
class RetryMarker:
    """The marks by which a request may be a repetition."""

    digest: bytes
    """Of the path and the body."""
    key: str | None = None
    """The ``Idempotency-Key``."""
    attempt: int = 0
    """Number of times that the client repeated it before, as it says (``x-stainless-retry-count``)."""

    @property
    def repeats(self) -> bool:
        """Whether it may repeat an earlier call, rather than be a new one with the same body."""
        return self.attempt > 0 or self.key is not None


@dataclass(slots=True, eq=False)
class _Known:
    digest: bytes
    answer: PendingReply
    attempt: int
    """The client's last one that waits for the answer."""
    finished_at: float | None = None


class Retries:
    """The calls of one session that may be repeated.

    An agent may make calls with one body side by side, and a repetition does not say which of them it
    repeats. It first stands for one that failed or was refused, and is sampled. Otherwise it gets an answer,
    and the next repetition gets another one, as far as there are several.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str | bytes, deque[_Known]] = {}
        """By idempotency key, or by digest; the one to be repeated next is last."""
        self._finished: deque[tuple[str | bytes, _Known]] = deque()
        """Those that were answered, with their names; the last to finish is last."""
        self._unanswered: dict[tuple[bytes, int], deque[float]] = {}
        """Calls without a key that failed or were refused, and were not repeated yet: when, by digest and
        attempt.
        """

    def find(self, marker: RetryMarker | None) -> PendingReply | None:
        """Return the answer, finished or in progress, of the call that this one repeats; None for a new call.

        Raises CallError(400) for an idempotency key that came with another body.
        """
        if marker is None:
            return None
        self._forget()
        if not marker.repeats:
            return None
        if marker.key is None and self._repeats_unanswered(marker):
            return None
        calls = self._known.get(_name(marker))
        if calls is None:
            return None
        # A client mostly repeats a call for which it did not want to wait any longer.
        known = next((each for each in reversed(calls) if each.finished_at is None), calls[-1])
        if known.digest != marker.digest:
            detail = f"the idempotency key {marker.key!r} was used for another request"
            raise CallError(400, "idempotency_key_reused", detail, "Idempotency-Key")
        known.attempt = marker.attempt
        calls.remove(known)
        calls.appendleft(known)
        return known.answer

    def keep(self, marker: RetryMarker | None, answer: PendingReply) -> None:
        """Keep a call that begins, so that it may be repeated. A call that fails is forgotten."""
        if marker is None:
            return
        name, known = _name(marker), _Known(marker.digest, answer, marker.attempt)
        self._known.setdefault(name, deque()).append(known)

        def finish(answer: PendingReply) -> None:
            if answer.cancelled() or answer.exception() is not None:
                self._remove(name, known)
                self.count_unanswered(replace(marker, attempt=known.attempt))
                return
            known.finished_at = self._clock()
            self._finished.append((name, known))

        answer.add_done_callback(finish)

    def count_unanswered(self, marker: RetryMarker | None) -> None:
        """Count a call that got no answer: its repetition is sampled."""
        if marker is not None and marker.key is None:
            failed = self._unanswered.setdefault((marker.digest, marker.attempt), deque())
            failed.append(self._clock())

    def _repeats_unanswered(self, marker: RetryMarker) -> bool:
        """Return whether it stands for a call without an answer, which is then no longer waited for."""
        failed = self._unanswered.get((marker.digest, marker.attempt - 1), deque())
        # The agent itself may have repeated the call, unmarked, or have given it up.
        while failed and failed[0] < self._clock() - _BACK_OFF_S:
            failed.popleft()
        if not failed:
            return False
        failed.popleft()
        return True

    def _forget(self) -> None:
        """Forget calls that finished long ago, and all but the last few."""
        oldest = self._clock() - _KEPT_S
        while self._finished:
            name, known = self._finished[0]
            if len(self._finished) <= _MOST_KEPT and (known.finished_at or 0.0) >= oldest:
                return
            self._finished.popleft()
            self._remove(name, known)

    def _remove(self, name: str | bytes, known: _Known) -> None:
        calls = self._known[name]
        calls.remove(known)
        if not calls:
            del self._known[name]


def _name(marker: RetryMarker) -> str | bytes:
    return marker.digest if marker.key is None else marker.key
