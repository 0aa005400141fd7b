"""The destructions of a factory's boxes that are under way.

They belong to the factory, since those who ask for one may give up before its end, as a pool does whose
engine restarts: the factory keeps what a destruction needs until the last one has ended or had its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from sandbox_service.telemetry import get_logger

from .base import DESTROY_S

logger = get_logger(__name__)


class Destructions:
    """The destructions under way, by the ids of their boxes."""

    def __init__(self, longest_s: float = DESTROY_S) -> None:
        self._longest_s = longest_s
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._until = 0.0

    def begin_destruction(self, sandbox_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the destruction of a box."""
        task = asyncio.create_task(work, name=f"destroy {sandbox_id}")
        self._tasks[sandbox_id] = task
        self._until = asyncio.get_running_loop().time() + self._longest_s
        task.add_done_callback(lambda ended: self._end(sandbox_id, ended))
        return task

    async def finish_destructions(self) -> None:
        """Wait until all have ended, or the one that began last has had its time."""
        left_s = self._until - asyncio.get_running_loop().time()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=max(0.0, left_s))
        for sandbox_id, task in self._tasks.items():
            if not task.done():
                logger.error("box_left_behind", sandbox_id=sandbox_id)

    def _end(self, sandbox_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[sandbox_id]
        # Logged here alone: there may be no caller left that sees it.
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("box_destruction_failed", sandbox_id=sandbox_id, exc_info=error)
