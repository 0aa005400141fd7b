"""Batches of stages on given data, which is prepared when the first of them is asked for.

It is prepared once, and after a failure again when the next batch is asked for, as restarted workers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.errors import DataError

if TYPE_CHECKING:
    from trainer.types import Batch

    from .dependencies import RecordedBatches, StageData
    from .waiting import ProgressWaiter


class PreparedStages:
    """The data of a run's stages that play no episodes."""

    def __init__(self, data: Mapping[int, StageData], waiter: ProgressWaiter) -> None:
        self._data = data
        self._waiter = waiter
        self._prepared: dict[int, asyncio.Task[RecordedBatches]] = {}

    async def get_batch(self, step: int, stage: int) -> Batch:
        """Return the batch of a step of a stage. Raises DataError for a stage without data."""
        data = self._data.get(stage)
        if data is None:
            raise DataError(f"stage {stage} of the run has no data")
        prepared = self._prepared.get(stage)
        if prepared is None or _has_failed(prepared):
            prepared = self._prepared[stage] = asyncio.ensure_future(data.prepare())
        batches = await self._waiter.wait_for(data.name, prepared, data.timeout_s)
        return batches.get_batch(step)

    async def close(self) -> None:
        """Cancel what is being prepared."""
        for task in self._prepared.values():
            task.cancel()
        await asyncio.gather(*self._prepared.values(), return_exceptions=True)


def _has_failed(task: asyncio.Task[RecordedBatches]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
