"""Handle SIGINT and SIGTERM for a service: abort its start, ask it to stop, ignore them while it stops."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from enum import Enum
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Phase(Enum):
    """The phase of a service's life, which decides what a signal does."""

    STARTING = "starting"
    """A signal raises KeyboardInterrupt, so that the start is undone at once."""
    RUNNING = "running"
    """A signal sets ``stopping``."""
    STOPPING = "stopping"
    """A signal changes nothing: the remaining steps have deadlines of their own."""


class StopRequest:
    """An event that a signal handler can set at any moment.

    ``threading.Event`` would not do: its lock is not reentrant, so a handler that sets it while its thread
    begins or ends a wait blocks forever. SimpleQueue allows its ``put`` within another of its calls.
    """

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Request the stop. Idempotent."""
        self._requests.put(None)

    def is_set(self) -> bool:
        """Return whether the stop has been requested."""
        return not self._requests.empty()

    def wait_for_request(self, timeout_s: float | None = None) -> bool:
        """Wait until the stop is requested, for a limited time if one is given; return whether it is."""
        try:
            self._requests.get(timeout=timeout_s)
        except queue.Empty:
            return False
        self._requests.put(None)  # for every other wait
        return True


class SignalHandlers:
    """The process's signal handlers while a service runs; does nothing outside the main thread."""

    def __init__(self) -> None:
        self.stopping = StopRequest()
        self._phase = Phase.STARTING

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Handle the signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.enter(Phase.STARTING)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def enter(self, phase: Phase) -> None:
        """Begin a phase. Installs the handlers again, since Ray installs its own when it starts."""
        self._phase = phase
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._phase is Phase.STARTING:
            # A second signal must not interrupt what undoes the start.
            self._phase = Phase.STOPPING
            raise KeyboardInterrupt(signal.Signals(number).name)
        self.stopping.set()
