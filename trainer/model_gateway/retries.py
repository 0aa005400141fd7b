"""Recognise the repetition of a call, so that it is answered again instead of sampled again.

Clients repeat a call whose answer they did not get. A repetition is recognised by its idempotency key, or by
the mark that the OpenAI and Anthropic SDKs set on a retry together with the same body. The same body without
a mark is a new call: an agent may sample twice from one history.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .calls import CallError

if TYPE_CHECKING:
    from .calls import ModelReply

PendingReply: TypeAlias = "asyncio.Future[ModelReply]"

_MOST_KEPT = 64
"""Finished calls of a session that may be repeated."""
_KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class RetryMarker:
    """The marks by which a request may be a repetition."""

    digest: bytes
    """Of the path and the body."""
    key: str | None = None
    """The ``Idempotency-Key``."""
    repeated: bool = False
    """Whether the client marked it as a retry (``x-stainless-retry-count`` above 0)."""

    @property
    def repeats(self) -> bool:
        """Whether it may repeat an earlier call, rather than be a new one with the same body."""
        return self.repeated or self.key is not None


@dataclass(slots=True)
class _Known:
    digest: bytes
    answer: PendingReply
    finished_at: float | None = None


class Retries:
    """The calls of one session that may be repeated."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str | bytes, _Known] = OrderedDict()
        """By idempotency key, or by digest; the last to finish is last."""

    def find(self, marker: RetryMarker | None) -> PendingReply | None:
        """Return the answer, finished or in progress, of the call that this one repeats; None for a new call.

        Raises CallError(400) for an idempotency key that came with another body.
        """
        if marker is None:
            return None
        self._forget()
        known = self._known.get(_name(marker))
        if known is None or not marker.repeats:
            return None
        if known.digest != marker.digest:
            detail = f"the idempotency key {marker.key!r} was used for another request"
            raise CallError(400, "idempotency_key_reused", detail, "Idempotency-Key")
        return known.answer

    def keep(self, marker: RetryMarker | None, answer: PendingReply) -> None:
        """Keep a call that begins, so that it may be repeated. A call that fails is forgotten."""
        if marker is None:
            return
        name, known = _name(marker), _Known(marker.digest, answer)
        self._known[name] = known

        def finish(answer: PendingReply) -> None:
            # A new call with the same body may have taken its name.
            if self._known.get(name) is not known:
                return
            if answer.cancelled() or answer.exception() is not None:
                del self._known[name]
                return
            known.finished_at = self._clock()
            self._known.move_to_end(name)

        answer.add_done_callback(finish)

    def _forget(self) -> None:
        """Forget calls that finished long ago, and all but the last few."""
        finished = [name for name, known in self._known.items() if known.finished_at is not None]
        oldest = self._clock() - _KEPT_S
        for place, name in enumerate(finished):
            finished_at = self._known[name].finished_at
            if place < len(finished) - _MOST_KEPT or (finished_at is not None and finished_at < oldest):
                del self._known[name]


def _name(marker: RetryMarker) -> str | bytes:
    return marker.digest if marker.key is None else marker.key
