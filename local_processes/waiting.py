"""Wait for a condition with a deadline, and space attempts out exponentially."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

_MOST_DOUBLINGS = 32


class Deadline(NamedTuple):
    """A moment by which something that began at a monotonic time is given up."""

    began: float
    timeout_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """Return a deadline that begins now."""
        return cls(time.monotonic(), timeout_s)

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.began + self.timeout_s


def wait_until(condition: Callable[[], object], deadline: Deadline, *, poll_s: float = 0.1) -> bool:
    """Return True as soon as the condition holds, and False if it does not by the deadline.

    The condition is asked at least once. What it raises ends the wait.
    """
    while not condition():
        if deadline.passed:
            return False
        time.sleep(poll_s)
    return True


def exponential_wait_s(first_s: float, longest_s: float, failures: int) -> float:
    """Return the wait after so many failures in a row: ``first_s`` after one, doubled by each further one."""
    return min(longest_s, first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
