"""Run asynchronous work beside a running service, which handles the process's signals."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .signals import StopRequest
ResultT = TypeVar("ResultT")

_POLL_S = 0.2


async def until_stopped(work: Coroutine[None, None, ResultT], stopping: StopRequest) -> ResultT:
    """Run the work; cancel it, and raise CancelledError, soon after ``stopping`` is set."""
    task = asyncio.create_task(work)
    while not task.done():
        await asyncio.wait({task}, timeout=_POLL_S)
        if stopping.is_set():
            task.cancel()
    return await task
