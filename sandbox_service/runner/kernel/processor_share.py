"""The share of a processor that a thread gets which never sleeps, found by being one for a moment."""

from __future__ import annotations

import os
import time

_TRIAL_S = 0.2
_GAP_S = 0.0005
"""A loop that misses so much of the clock did not run meanwhile; it reads the clock every microsecond."""


def waits_are_counted() -> bool:
    """Return whether the kernel reports waits for a processor as processor time, as gVisor does."""
    return not os.path.exists("/proc/self/schedstat")  # noqa: PTH110


def share_of_processor() -> float:
    """Return the share, between 0 and 1, by a busy loop of 0.2 s."""
    # The clock does not stand still where the processor time is not to be believed.
    return _by_gaps() if waits_are_counted() else _by_processor_time()


def _by_processor_time() -> float:
    started, used = time.monotonic(), time.thread_time()
    while time.monotonic() - started < _TRIAL_S:
        pass
    return (time.thread_time() - used) / (time.monotonic() - started)


def _by_gaps() -> float:
    missed_s = 0.0
    started = last = time.monotonic()
    while last - started < _TRIAL_S:
        now = time.monotonic()
        if now - last > _GAP_S:
            missed_s += now - last
        last = now
    return 1.0 - missed_s / (last - started)
