"""An instance whose handover fails stays with its supervisor and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import supervised


class _FailingStore(MemoryTrajectoryStore):
    """Does not give instances up, or only when a test lets it."""

    def __init__(self, failure: Exception | None) -> None:
        super().__init__()
        self.failure = failure

    async def disown(self, instance_ids: Collection[str]) -> None:
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "failure",
    [ServiceError(ErrorCode.STORAGE_FULL, "no space"), RuntimeError("can't start new thread")],
    ids=["refused", "no thread"],
)
async def test_calls_go_on_after_a_handover_that_failed(failure: Exception) -> None:
    async with supervised(store=_FailingStore(failure)) as service:
        instance = await service.create()
        await service.core.begin_drain(move=True)
        assert (await service.step(instance))["step_index"] == 0
        assert await service.release(instance)


async def test_calls_go_on_after_a_handover_that_was_cancelled() -> None:
    async with supervised(store=_FailingStore(None)) as service:
        instance = await service.create()
        await service.core.begin_drain(move=True)
        handover = service.core.table.by_id(instance).handover
        await asyncio.sleep(0)
        handover.cancel()
        assert (await service.step(instance))["step_index"] == 0
        assert await service.release(instance)
