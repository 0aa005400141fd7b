"""The thread that writes a run's journal and files, so that the event loop never waits for a disk.

Entries are written in the order in which they are handed in, and those that wait together are committed
together. ``flush`` waits for the disk. After a write that failed nothing more is written, and every later
call raises its error: the disk always holds a prefix of the events.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from trainer.types import TrajectoryGroup

    from .events import Event
    from .journal import BatchJournal


T = TypeVar("T")

_END_S = 60.0
"""For everything that waits to be written, at the end."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An event that is to be appended."""

    event: Event
    payload: TrajectoryGroup | None


class _Call(Generic[T]):
    """Something else that is to be done with the journal."""

    def __init__(self, what: Callable[[BatchJournal], T], *, vital: bool) -> None:
        self.done: Future[T] = Future()
        self.vital = vital
        """Whether nothing more may be written when it fails."""
        self.what = what


class JournalWriter:
    """Owns a journal; everything else reaches it through ``call_journal``."""

    def __init__(self, journal: BatchJournal) -> None:
        self._journal = journal
        self._queue: queue.SimpleQueue[_Entry | _Call[Any] | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def append(self, event: Event, payload: TrajectoryGroup | None = None) -> None:
        """Hand in an event. Raises what made an earlier write fail."""
        if self._failure is not None:
            raise self._failure
        self._queue.put(_Entry(event, payload))

    def post(self, what: Callable[[BatchJournal], object]) -> None:
        """Hand in something else whose failure ends all writing. Raises what made an earlier write fail."""
        if self._failure is not None:
            raise self._failure
        self._queue.put(_Call(what, vital=True))

    def call_journal(self, what: Callable[[BatchJournal], T]) -> asyncio.Future[T]:
        """Have ``what`` called after everything handed in before; the future has its result or error."""
        asked = _Call(what, vital=False)
        self._queue.put(asked)
        return asyncio.wrap_future(asked.done)

    def flush(self) -> asyncio.Future[None]:
        """Return a future that is done when all that was handed in before is on disk, or has the error."""
        return self.call_journal(lambda _: None)

    def close(self) -> None:
        """Write what waits and let go of the journal; a second time does nothing."""
        self._queue.put(None)
        self._thread.join(_END_S)
        self._journal.close()

    # What follows runs in the writer's thread.

    def _write(self) -> None:
        while True:
            # Everything that waits goes into one transaction, since each waits for the disk once.
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            entries: list[_Entry] = []
            for item in waiting:
                if isinstance(item, _Entry):
                    entries.append(item)
                    continue
                self._append(entries)
                entries = []
                if item is None:
                    return
                self._do(item)
            self._append(entries)

    def _append(self, entries: list[_Entry]) -> None:
        if not entries or self._failure is not None:
            return
        try:
            self._journal.append_all((entry.event, entry.payload) for entry in entries)
        except BaseException as error:  # noqa: BLE001 - whoever hands something in gets it
            self._failure = error

    def _do(self, asked: _Call[Any]) -> None:
        if not asked.done.set_running_or_notify_cancel():
            return
        if self._failure is not None:
            asked.done.set_exception(self._failure)
            return
        try:
            asked.done.set_result(asked.what(self._journal))
        except BaseException as error:  # noqa: BLE001 - whoever asked gets it
            if asked.vital:
                self._failure = self._failure or error
            asked.done.set_exception(error)
