"""End asynchronous work at a signal: a server's own, or that of a running service beside the work."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .signals import StopRequest
ResultT = TypeVar("ResultT")

_POLL_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Set the event at SIGINT or SIGTERM, within an event loop; a second signal has its usual effect."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        stopped.set()
        leave_signals()

    def leave_signals() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield stopped
    finally:
        leave_signals()


async def until_stopped(work: Coroutine[None, None, ResultT], stopping: StopRequest) -> ResultT:
    """Run the work; cancel it, and raise CancelledError, soon after ``stopping`` is set."""
    task = asyncio.create_task(work)
    while not task.done():
        await asyncio.wait({task}, timeout=_POLL_S)
        if stopping.is_set():
            task.cancel()
    return await task
