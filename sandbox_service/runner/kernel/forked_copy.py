"""Compute something in a copy of this process that is thrown away, and read what it says through a pipe.

For foreign code that may hang, end the process or change what it finds: none of that reaches the original.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import privileges

_PIECE = 65536


class ForkedCopy:
    """A running copy, as its original sees it."""

    def __init__(self, pid: int, reading: int) -> None:
        self.pid = pid
        self.status = 0
        """Wait status, once it has ended."""
        self._reading = reading

    def read(self, timeout_s: float) -> bytes | None:
        """Return what it has said since the last call, empty after its end; None if it stays silent."""
        if not select.select([self._reading], [], [], max(0.0, timeout_s))[0]:
            return None
        return os.read(self._reading, _PIECE)


def fork_with_pipe() -> tuple[int, int, int]:
    """Fork; return the pid, 0 in the copy, and both ends of a pipe: the one to read, the one to write.

    Raises OSError if no process can be made.
    """
    reading, writing = os.pipe()
    try:
        return os.fork(), reading, writing
    except OSError:
        os.close(reading)
        os.close(writing)
        raise


@contextmanager
def forked_copy(compute: Callable[[Callable[[bytes], object]], object]) -> Iterator[ForkedCopy]:
    """Call ``compute`` in a copy of this process, which is killed and reaped at the end of the context.

    ``compute`` gets a function that sends bytes to the original. It should catch and send whatever it raises:
    an exception ends the copy without a word. Raises OSError if no process can be made.
    """
    pid, reading, writing = fork_with_pipe()
    if pid == 0:
        # Leave with os._exit: an exception would run the caller's loop a second time, in this process.
        try:
            privileges.die_with_parent()
            compute(lambda data: os.write(writing, data))
        finally:
            os._exit(0)
    os.close(writing)
    copy = ForkedCopy(pid, reading)
    try:
        yield copy
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        copy.status = os.waitpid(pid, 0)[1]
