"""Background tasks: each has an owner, and a failure of one is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from sandbox_service.telemetry import get_logger

_T = TypeVar("_T")

logger = get_logger(__name__)


class BackgroundTasks:
    """The running tasks of one owner. A task that fails is logged and does not affect the others."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start a task, and keep a reference until it ends: the event loop holds only a weak one."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, timeout_s: float) -> bool:
        """Wait until no task is left, including those spawned meanwhile; return False on a timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            return False
        return True

    async def cancel(self, clean_up_s: float | None = None) -> None:
        """Cancel all tasks and wait until they have ended; each has ``clean_up_s`` to clean up."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=clean_up_s)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background_task_failed", owner=self._owner, exc_info=error)
