"""Something that takes long to build, and that many callers wait for: the first has it built for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

T = TypeVar("T")


class BuiltOnce(Generic[T]):
    """Builds in a task of its own: the cancellation of one caller neither ends nor repeats the work."""

    def __init__(self, build: Callable[[], Coroutine[object, object, T]]) -> None:
        """``build`` is called again by the next caller after it failed, and only then."""
        self._build = build
        self._building: asyncio.Task[T] | None = None

    async def get_built(self) -> T:
        """Return what was built. Raises what ``build`` raises."""
        if self._building is None or (self._building.done() and not _succeeded(self._building)):
            self._building = asyncio.create_task(self._build())
        return await asyncio.shield(self._building)

    async def stop_building(self) -> T | None:
        """Cancel a build in progress and wait for its end; return what was built, if anything."""
        task = self._building
        if task is None:
            return None
        task.cancel()
        await asyncio.wait({task})
        return task.result() if _succeeded(task) else None


def _succeeded(task: asyncio.Task[T]) -> bool:
    return not task.cancelled() and task.exception() is None
