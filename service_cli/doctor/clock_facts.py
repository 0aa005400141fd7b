"""Read the clock: its source, what the kernel says of its synchronization, and whether it jumps."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from .machine import ClockFacts

_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_UNSYNCHRONIZED = 0x40
"""``STA_UNSYNC`` of linux/timex.h."""


class _Timex(ctypes.Structure):
    """``struct timex`` of linux/timex.h, as far as it is read; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("most_error", ctypes.c_long),
        ("estimated_error", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


class WallClock:
    """Compares the wall clock with the monotonic clock since it was made."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def facts(self) -> ClockFacts:
        """Return the facts of the clock now."""
        try:
            source = _SOURCE.read_text().strip()
        except OSError:
            source = ""
        synchronized, error_s = _kernel_says()
        return ClockFacts(source, synchronized, error_s, time.time() - time.monotonic() - self._offset)


def _kernel_says() -> tuple[bool | None, float]:
    """Return whether the kernel takes the clock for synchronized, and the largest error in seconds."""
    timex = _Timex(modes=0)
    libc = ctypes.CDLL(None, use_errno=True)
    # Without modes the call only reads; engines may refuse it all the same.
    if libc.adjtimex(ctypes.byref(timex)) < 0:
        return None, 0.0
    return not timex.status & _UNSYNCHRONIZED, timex.most_error / 1e6
