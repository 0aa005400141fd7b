"""Wait for a condition, or for an attempt that succeeds, with a deadline."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

ResultT = TypeVar("ResultT")
FailureT = TypeVar("FailureT", bound=Exception)

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
        return self.left_s <= 0

    @property
    def left_s(self) -> float:
        """Seconds until it, negative afterwards."""
        return self.began + self.timeout_s - time.monotonic()


class RetryWaits(NamedTuple):
    """Waits between attempts, in seconds."""

    first_s: float = 0.5
    longest_s: float = 10.0


REQUEST_WAITS = RetryWaits()
"""For requests to a server that may be busy or restarting."""


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


async def retry(
    attempt: Callable[[], Awaitable[ResultT]],
    on: type[FailureT],
    deadline: Deadline,
    late: str,
    *,
    attempts: int | None = None,
    uncounted: tuple[type[FailureT], ...] = (),
    waits: RetryWaits = REQUEST_WAITS,
) -> ResultT:
    """Return the result of the first attempt that succeeds.

    Args:
        attempt: raises ``on`` where another attempt may succeed; any other error ends the attempts.
        on: the class of such failures, made of a message.
        deadline: of all attempts and the waits between them; an attempt under way is cancelled.
        late: what is missing at the deadline, such as ``the judge was not done``, to which the time and the
            last failure are added.
        attempts: the most attempts; by default, as many as begin before the deadline.
        uncounted: classes of failures that pass by themselves, whose attempts are not counted.
        waits: those between two attempts.

    Raises ``on``: the failure of the last attempt, or one that says ``late``.
    """
    last: FailureT | None = None
    counted = 0
    for number in itertools.count(1):
        try:
            async with asyncio.timeout(deadline.left_s) as limit:
                return await attempt()
        except on as failure:
            counted += not isinstance(failure, uncounted)
            if counted == attempts:
                raise
            last = failure
        except TimeoutError:
            if not limit.expired():
                raise
            break
        wait_s = exponential_wait_s(*waits, number)
        if wait_s >= deadline.left_s:
            break
        await asyncio.sleep(wait_s)
    cause = "" if last is None else f"; the last failure: {last}"
    raise on(f"{late} within {deadline.timeout_s:g} s{cause}") from last
