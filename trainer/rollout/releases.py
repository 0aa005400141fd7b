"""Release the instances of finished episodes in the background.

An episode's trajectory is complete when it has been graded. Cleaning up its instance costs the service CPU
time that the learner leaves idle while it updates, so nothing waits for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode


class BackgroundReleases:
    """Owns the releases that are under way. The client bounds each of them in time."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def release(self, episode: AsyncEpisode) -> None:
        """Start to release an episode's instance. The client logs a failure; the lease then ends it."""
        task = asyncio.create_task(episode.release(), name=f"release {episode.instance_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for all releases."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
