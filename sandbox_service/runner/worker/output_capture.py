"""Collect the output of a cell or command: bounded in memory, read to its end while there is time."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .allowance import Allowance


_CHUNK = 1 << 16


class OutputCapture:
    """The reading end of a pipe, and what is kept of what came through it."""

    def __init__(self, max_output: int) -> None:
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        # Of this end alone: a program that finds its output non-blocking would lose a part of it.
        os.set_blocking(self._reading, False)
        self._max = max_output
        self._kept = bytearray()
        self.truncated = False

    @property
    def text(self) -> str:
        """Return the output that is kept, with invalid UTF-8 replaced."""
        return self._kept.decode("utf-8", "replace")

    def close_writing(self) -> None:
        """Close our copy of the writing end, once the other process has its own."""
        os.close(self.writing)

    def follow(self, allowance: Allowance, others: dict[int, Callable[[], bool]]) -> bool:
        """Read until one of ``others`` says that it is over; False when the allowance is used up.

        ``others`` maps descriptors to what is called when they are readable.
        """
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        for descriptor in others:
            poll.register(descriptor, select.POLLIN)
        while not allowance.over():
            for descriptor, _ in poll.poll(allowance.wait_s * 1000):
                if descriptor != self._reading:
                    if others[descriptor]():
                        return True
                elif not self._take():
                    poll.unregister(self._reading)
        return False

    def finish(self) -> None:
        """Take what is in the pipe and close it."""
        # The amount is asked for once: a process that outlived its cell may write as fast as this reads.
        waiting = array.array("i", [0])
        fcntl.ioctl(self._reading, termios.FIONREAD, waiting)
        for begin in range(0, waiting[0], _CHUNK):
            self._take(min(_CHUNK, waiting[0] - begin))
        os.close(self._reading)

    def _take(self, most: int = _CHUNK) -> bool:
        """Read once; False at the end of the stream."""
        try:
            data = os.read(self._reading, most)
        except BlockingIOError:
            return True
        if not data:
            return False
        room = self._max - len(self._kept)
        if len(data) > room:
            self.truncated = True
        self._kept += data[:room]
        return True
