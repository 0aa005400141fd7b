"""Instances of episodes that may not begin yet: created while the learner updates, when boxes are idle.

An instance that could not be created, or that nobody took in time, is no failure: its episode makes another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_client import SandboxError

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode
    from trainer.types import GroupSpec


_KEEP_S = 120.0
"""An instance that nobody takes is released; the service's lease for idle ones is longer."""


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    ready: asyncio.Future[AsyncEpisode | None]
    task: asyncio.Task[None]


class PreparedInstances:
    """By group and member."""

    def __init__(
        self,
        open_episode: Callable[[GroupSpec], AsyncEpisode],
        create_s: float,
        keep_s: float = _KEEP_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._open = open_episode
        self._create_s = create_s
        self._keep_s = keep_s
        self._sleep = sleep
        self._held: dict[tuple[int, int], _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def prepare(self, spec: GroupSpec, member: int) -> None:
        """Begin to create an episode's instance."""
        key = (spec.index, member)
        if key not in self._held:
            ready: asyncio.Future[AsyncEpisode | None] = asyncio.get_running_loop().create_future()
            self._held[key] = _Held(ready, asyncio.create_task(self._hold(key, self._open(spec), ready)))

    async def take(self, spec: GroupSpec, member: int) -> AsyncEpisode | None:
        """The episode with its instance, from now on the caller's; None when there is none."""
        key = (spec.index, member)
        held = self._held.get(key)
        if held is None:
            return None
        episode = await asyncio.shield(held.ready)
        if episode is None or self._held.get(key) is not held:
            return None
        del self._held[key]
        held.task.cancel()
        return episode

    async def close(self) -> None:
        """Release what nobody took."""
        tasks = [held.task for held in self._held.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hold(
        self, key: tuple[int, int], episode: AsyncEpisode, ready: asyncio.Future[AsyncEpisode | None]
    ) -> None:
        try:
            async with asyncio.timeout(self._create_s):
                await episode.__aenter__()
            ready.set_result(episode)
            await self._sleep(self._keep_s)
        except (SandboxError, TimeoutError):
            pass
        finally:
            if not ready.done():
                ready.set_result(None)
            if self._held.pop(key, None) is not None:
                await episode.release()
