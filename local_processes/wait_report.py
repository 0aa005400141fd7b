"""Say at intervals what a slow start waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

EVERY_S = 10.0
"""Seconds between two reports."""
_LAST_S = 1.0
"""Longest time that the end waits for a report that is being written."""


class WaitReport:
    """Reports from a thread, every ``EVERY_S`` seconds until the end, what is waited for and how long.

    ``ended`` is set at the end, and its ``wait`` is the interval.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        what: str,
        *,
        ended: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._what = what
        self._ended = ended or threading.Event()
        self._clock = clock
        self._began = clock()
        self._thread = threading.Thread(target=self._repeat, name="wait report", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_report()

    def wait_for(self, what: str) -> None:
        """Set what is waited for from now on."""
        self._what = what

    def end_report(self) -> None:
        """Report nothing more. Idempotent."""
        self._ended.set()
        self._thread.join(_LAST_S)

    def _repeat(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._report(f"{self._clock() - self._began:.0f} s: waiting for {self._what}")
