"""Play groups in the background, with as many episodes at a time as the service's pool has room for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.rollout.backpressure import follow_pool

if TYPE_CHECKING:
    from trainer.rollout.backpressure import Slots
    from trainer.rollout.collector import Collector

    from .dependencies import Dependencies
    from .group_source import JournaledGroupSource


class Collection:
    """The task that plays the groups of a source."""

    def __init__(
        self,
        collector: Collector,
        slots: Slots,
        parts: Dependencies,
        environments: tuple[str, ...],
        concurrency: int,
    ) -> None:
        """``concurrency``: the most episodes at a time, whatever the pool of ``environments`` has."""
        self._collector = collector
        self._slots = slots
        self._parts = parts
        self._environments = environments
        self._concurrency = concurrency
        self._task: asyncio.Task[None] | None = None

    def begin_playing(self, source: JournaledGroupSource, on_end: Callable[[], None]) -> None:
        """Begin to play, or look for groups that may begin; ``on_end`` is called when playing ends."""
        if self._task is None:
            self._task = asyncio.create_task(self._play(source))
            self._task.add_done_callback(lambda _: on_end())
        self._collector.wake()

    def check(self) -> None:
        """Raise what ended the playing, if anything did."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Stop playing; what is under way is cancelled."""
        # Forgotten before the wait, or ``check`` would raise its cancellation.
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _play(self, source: JournaledGroupSource) -> None:
        following = follow_pool(
            self._parts.service,
            self._environments,
            self._slots,
            self._concurrency,
            lambda: self._parts.watch.in_phase("create"),
        )
        tasks = {asyncio.create_task(self._collector.run(source)), asyncio.create_task(following)}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
