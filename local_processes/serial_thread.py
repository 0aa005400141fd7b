"""Run calls one after another, in a thread that the process ends without."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from .threads import settle

T = TypeVar("T")


class SerialThread:
    """Runs calls in a daemon thread.

    The interpreter joins the threads of a ThreadPoolExecutor before it ends, so that a call which never
    returns would keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._starting = threading.Lock()
        self._ended = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Make a call after those before it, unless its future is cancelled by then.

        Raises RuntimeError after the end, as a ThreadPoolExecutor does.
        """
        done: Future[T] = Future()

        def call() -> None:
            if done.set_running_or_notify_cancel():
                settle(done, work)

        with self._starting:
            if self._ended:
                raise RuntimeError(f"{self._thread.name}: the thread has been ended")
            self._calls.put(call)
            if self._thread.ident is None:
                self._thread.start()
        return done

    def end_thread(self) -> None:
        """End the thread after the calls that were submitted, without waiting for it. Idempotent."""
        with self._starting:
            self._ended = True
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
