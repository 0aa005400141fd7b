"""Two process attributes of Linux for which Python has no function."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send this process a signal when the thread that started it ends.

    For ``preexec_fn``: the setting survives ``execve``, except of a set-user-id program.
    """
    _prctl(_PR_SET_PDEATHSIG, number)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make orphaned descendants children of this process, instead of init's, while the block runs."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    # prctl is variadic in C: without explicit types ctypes passes 32 bits, and the rest of each register is
    # undefined.
    if libc.prctl(option, *(ctypes.c_ulong(word) for word in (value, 0, 0, 0))) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl: {os.strerror(number)}")
