"""One event loop for everything that is asked of an engine, in a thread of its own.

Ray gives each of an actor's concurrency groups a thread and a loop. vLLM's client belongs to the loop that it
was first used in: an answer that arrives for a caller in another loop does not wake that loop, which then
sleeps until something else does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future


T = TypeVar("T")


class EngineLoop:
    """Runs until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="engine", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there, and wait in the caller's loop; a caller that is cancelled cancels it."""
        return await asyncio.wrap_future(self.start(work))
