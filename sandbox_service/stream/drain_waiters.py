"""Senders that wait until the peer of a connection has read enough."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class DrainWaiters:
    """A queue of senders, which are woken one by one, so that they do not all pass the mark at once."""

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self._has_room = has_room
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait until there is room."""
        loop = asyncio.get_running_loop()
        while not self._has_room():
            waiter = loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                # By then this sender has sent its frame; one that was cancelled passes its turn on.
                loop.call_soon(self.wake)

    def wake(self) -> None:
        """Let the next sender go on if there is room."""
        while self._waiters and self._has_room():
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
