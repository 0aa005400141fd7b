"""Wake a selector when a child has ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def sigchld_wakeup() -> Iterator[int]:
    """Give a descriptor that becomes readable whenever a child ends."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    # A full pipe wakes the selector as well as one more byte would.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # A handler that does nothing: with SIG_IGN the kernel would reap the children, and their exit codes with
    # them (wait(2)); by default no byte is written.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reading)
        os.close(writing)


def drain(descriptor: int) -> None:
    """Empty the descriptor before the children are reaped: one that ends in between writes again."""
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
