"""The limit of a cell's time: what it computes and what it sleeps count, a wait for a processor does not.

Agent territory. The thread looks at its own clocks when an alarm goes off. If it never gave up its processor
since the last look, only its CPU time counts: the rest was taken from it by another process, by the quota of
a container or by another virtual machine. If it slept, all time counts but what the kernel says it waited.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

_LOOKS = 10
"""Alarms in a cell's time, if no machine keeps it waiting."""
_SHORTEST_S = 0.02


class TimeoutError(Exception):  # AppWorld's name of it
    """Raised by the alarm."""

    __module__ = "appworld.common.utils"


@dataclass(frozen=True)
class Clocks:
    """This thread's clocks, in seconds, and how often it gave up its processor."""

    wall_s: float
    cpu_s: float
    waited_s: float
    sleeps: int

    def charge(self, before: Clocks) -> float:
        """Return the seconds since ``before`` that count."""
        passed = self.wall_s - before.wall_s
        if self.sleeps == before.sleeps:
            return min(passed, self.cpu_s - before.cpu_s)
        return max(0.0, passed - (self.waited_s - before.waited_s))


@contextlib.contextmanager
def alarm(timeout_s: int) -> Iterator[None]:
    """Raise TimeoutError in the block, once, when its time is over."""
    left_s, last = float(timeout_s), _clocks()

    def look(*_: object) -> None:
        nonlocal left_s, last
        before, last = last, _clocks()
        left_s -= last.charge(before)
        if left_s <= _SHORTEST_S:
            raise TimeoutError(f"Function run_cell execution timed out after {timeout_s} seconds.")
        signal.setitimer(signal.ITIMER_REAL, min(left_s, timeout_s / _LOOKS))

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, timeout_s / _LOOKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _clocks() -> Clocks:
    sleeps = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    # Not time.monotonic, which a session with a frozen calendar replaces.
    return Clocks(time.clock_gettime(time.CLOCK_MONOTONIC), time.thread_time(), _waited_s(), sleeps)


def _waited_s() -> float:
    """Return the seconds that this thread has waited for a processor; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
