"""Run a call in a thread of its own, and stop waiting for it at a deadline or on a condition.

These are daemon threads: the process ends without those that were left behind.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.2


class AbandonedError(TimeoutError):
    """A call in a thread was abandoned; the thread runs until the process ends."""


def run_in_thread(
    work: Callable[[], T],
    *,
    name: str,
    timeout_s: float | None = None,
    worth_waiting: Callable[[], bool] | None = None,
) -> T:
    """Return what the work returns, or raise what it raises.

    The calling thread stays free to handle signals, since it waits in short steps: a KeyboardInterrupt there
    leaves the work behind in a daemon thread. That suits libraries that install a handler for SIGINT when the
    main thread calls them, and calls that never return when their peer has died.

    Raises:
        AbandonedError: the timeout passed, or ``worth_waiting`` returned False.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    thread, done = _started(work, name)
    while thread.is_alive():
        if worth_waiting is not None and not worth_waiting():
            raise AbandonedError(f"{name}: what it waits for is gone")
        left_s = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
        if left_s <= 0:
            raise AbandonedError(f"{name} did not end within {timeout_s:g} s")
        thread.join(left_s)
    return done.result()


async def await_in_thread(work: Callable[[], T], *, name: str) -> T:
    """Return what the work returns, or raise what it raises; a cancellation leaves the work behind."""
    _, done = _started(work, name)
    return await asyncio.wrap_future(done)


def _started(work: Callable[[], T], name: str) -> tuple[threading.Thread, Future[T]]:
    done: Future[T] = Future()
    # It cannot be cancelled from now on, so that the thread can always say how it ended.
    done.set_running_or_notify_cancel()

    thread = threading.Thread(target=settle, args=(done, work), name=name, daemon=True)
    thread.start()
    return thread, done


def settle(done: Future[T], work: Callable[[], T]) -> None:
    """Do the work, and give its outcome to the future."""
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the caller's, whatever it is
        done.set_exception(error)
