"""Waiting with an end: for something to come true, with a report when nothing moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from trainer.errors import NoProgress

if TYPE_CHECKING:
    from trainer.rollout.watch import Watch


T = TypeVar("T")


class Patience:
    """Waits for conditions that others bring about."""

    def __init__(
        self,
        watch: Watch,
        *,
        report_s: float,
        stall_s: float,
        told: Callable[[str], None],
        tick_s: float = 1.0,
    ) -> None:
        self._watch = watch
        self._report_s = report_s
        self._stall_s = stall_s
        self._told = told
        self._tick_s = tick_s
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something that may have been waited for has happened."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, what: str, outcome: Callable[[], T | None], total_s: float) -> T:
        """The outcome, as soon as there is one.

        Raises NoProgress when there is none for ``stall_s`` seconds, or no outcome in ``total_s``; every
        ``report_s`` seconds without progress the report is told.
        """
        began = self._watch.now()
        self._watch.restart()
        told = 0
        while True:
            changed = self._changed
            found = outcome()
            if found is not None:
                return found
            waited_s, silence_s = self._watch.now() - began, self._watch.silence_s
            if silence_s >= self._stall_s or waited_s >= total_s:
                raise NoProgress(f"{what} is not there after {waited_s:.0f} s: {self._watch.report()}")
            reports = int(silence_s / self._report_s)
            if reports > told:
                self._told(f"waiting for {what}: {self._watch.report()}")
            told = reports
            try:
                await asyncio.wait_for(changed.wait(), self._tick_s)
            except TimeoutError:
                continue
