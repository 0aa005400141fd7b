"""Asynchronous work beside a running service, which has the process's signals for itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from threading import Event

__all__ = ["until_stopped"]

ResultT = TypeVar("ResultT")

_LOOK_S = 0.2


async def until_stopped(work: Coroutine[None, None, ResultT], stopping: Event) -> ResultT:
    """Do the work; cancelled soon after the process is told to end. Raises CancelledError then."""
    task = asyncio.create_task(work)
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK_S)
        if stopping.is_set():
            task.cancel()
    return await task
