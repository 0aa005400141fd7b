"""An event loop in which waits take no time: its clock goes on to the next timer when nothing is ready."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _SkippingSelector(selectors.DefaultSelector):
    """Counts the seconds for which it was to wait for files, instead of waiting."""

    skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]]
        if timeout is None:
            # No timer is set, so a thread is waited for.
            ready = super().select(None)
        elif not (ready := super().select(0)):
            self.skipped_s += max(0.0, timeout)
        return ready


class _SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._waits = _SkippingSelector()
        super().__init__(self._waits)

    def time(self) -> float:
        return super().time() + self._waits.skipped_s


def run_without_waits(work: Coroutine[Any, Any, T]) -> T:
    """Run work that waits for nothing but timers and threads; ``loop.time`` says what it would have taken."""
    with asyncio.Runner(loop_factory=_SkippingLoop) as runner:
        return runner.run(work)
