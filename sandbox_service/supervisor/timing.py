"""Measures the time of a request: in the queue for a box, in the box, and on the way."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame

    from .clock import Clock


_T = TypeVar("_T")


class RequestTimer:
    """Measures one request, from the moment at which the timer is made."""

    __slots__ = ("_clock", "_queue_s", "_run_ms", "_started")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self._queue_s = 0.0
        self._run_ms = 0.0

    async def queue(self, waiting: Awaitable[_T]) -> _T:
        """Await something, and count the time as time in the queue."""
        asked = self._clock.monotonic()
        result = await waiting
        self._queue_s += self._clock.monotonic() - asked
        return result

    def add_run(self, reply: Frame) -> None:
        """Add the time in the box, as the runner measured it."""
        self._run_ms += float(reply.meta.get("run_ms", 0.0))

    def split(self) -> dict[str, float]:
        """Return the milliseconds until now by their use: ``queue_ms``, ``route_ms`` and ``run_ms``."""
        queue_ms = self._queue_s * 1000
        # The box has a clock of its own, so the run may appear longer than the whole.
        route_ms = max(0.0, (self._clock.monotonic() - self._started) * 1000 - queue_ms - self._run_ms)
        return {"queue_ms": round(queue_ms, 3), "route_ms": round(route_ms, 3), "run_ms": self._run_ms}
