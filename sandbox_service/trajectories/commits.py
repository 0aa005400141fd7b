"""Let coroutines wait until what they queued is committed.

The writer commits what all running operations have queued in one transaction and wakes them together, with
one call into the event loop per transaction. The writer itself is woken after one iteration of the event
loop: a transaction for each record would cost several times as much.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .ownership import fenced_error

if TYPE_CHECKING:
    from .writer import Writer


_CHECK_S = 1.0
"""Seconds between two checks whether the writer is stuck, while coroutines wait for it."""


class Commits:
    """The coroutines of one event loop that wait for the writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._waking: asyncio.AbstractEventLoop | None = None
        writer.on_commit = self._committed
        writer.on_put = self._put

    async def wait(self) -> None:
        """Wait until everything queued so far is committed.

        Raises ServiceError: STORAGE_FULL when the writer is stuck; what was queued is written when it can be.
        SUPERVISOR_UNAVAILABLE when it is fenced; then it never is.
        """
        queued = self._writer.queued
        if self._writer.through >= queued:
            return
        if self._writer.fenced:
            raise fenced_error()
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((queued, future))
        # Checked again: the writer wakes only those that wait when it commits, and it may have just done so.
        if self._writer.through >= queued or self._writer.fenced:
            self._wake()
        elif self._check_timer is None:
            self._check_timer = loop.call_later(_CHECK_S, self._check_writer)
        await future

    def _put(self) -> None:
        """Wake the writer after this iteration of the event loop; at once where no loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._writer.wake()
            return
        if self._waking is not loop:
            self._waking = loop
            loop.call_soon(self._wake_writer)

    def _wake_writer(self) -> None:
        self._waking = None
        self._writer.wake()

    def _committed(self) -> None:
        """Called by the writer's thread after each transaction."""
        if self._waiting and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        through = self._writer.through
        while self._waiting and self._waiting[0][0] <= through:
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self._writer.fenced:
            self._fail(fenced_error)

    def _fail(self, make_error: Callable[[], ServiceError]) -> None:
        while self._waiting:
            future = self._waiting.popleft()[1]
            if not future.done():
                future.set_exception(make_error())

    def _check_writer(self) -> None:
        self._check_timer = None
        if self._writer.stuck():
            self._fail(unwritable)
        elif self._waiting and self._loop is not None:
            self._check_timer = self._loop.call_later(_CHECK_S, self._check_writer)


def unwritable() -> ServiceError:
    """Return the error of a store that has failed for too long."""
    return ServiceError(
        ErrorCode.STORAGE_FULL, "the trajectory store cannot be written; its log line says why"
    )
