"""Acknowledge Ctrl-C as soon as it comes, and leave what it does to Python and asyncio.

``asyncio.run`` cancels its work at Ctrl-C, and then awaits what the work releases, only where it finds
Python's own handler of SIGINT. So there is no other here: Python writes the number of a signal to a pipe,
which a thread reads. It prints to the file descriptor: the main thread may be within a print of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

_END = 0
"""Ends the thread; no signal has this number."""
_JOIN_S = 1.0
_STANDARD_ERROR = 2


@contextlib.contextmanager
def acknowledging(line: str) -> Iterator[None]:
    """Print a line on standard error at each Ctrl-C in the block.

    Not where an event loop handles SIGINT, since ``loop.add_signal_handler`` replaces the pipe of signals.
    A broken pipe after Ctrl-C counts as the interruption, since its reader may have got the same signal.
    Does nothing outside the main thread, which alone is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = threading.Event()
    try:
        with _watched(f"{line}\n".encode(), interrupted):
            yield
    except (BrokenPipeError, SystemExit) as error:  # rich exits at a closed pipe
        if not interrupted.is_set():
            raise
        raise KeyboardInterrupt from error


@contextlib.contextmanager
def _watched(line: bytes, interrupted: threading.Event) -> Iterator[None]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    watch = threading.Thread(target=_watch, args=(reading, line, interrupted), name="Ctrl-C", daemon=True)
    watch.start()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    pipe = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(pipe)
        signal.signal(signal.SIGINT, handler)
        os.write(writing, bytes([_END]))
        os.close(writing)
        watch.join(_JOIN_S)


def _watch(reading: int, line: bytes, interrupted: threading.Event) -> None:
    with open(reading, "rb", buffering=0) as signals:
        while (numbers := signals.read(1)) and _END not in numbers:
            if signal.SIGINT in numbers:
                interrupted.set()
                with contextlib.suppress(OSError):
                    os.write(_STANDARD_ERROR, line)
