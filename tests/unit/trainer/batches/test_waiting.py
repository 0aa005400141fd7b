"""Waits for conditions: a cancellation ends them, whatever comes with it."""

from __future__ import annotations

import asyncio

import pytest

from trainer.batches.waiting import ProgressWaiter
from trainer.rollout.progress import ProgressMonitor


async def test_a_cancellation_that_comes_with_a_change_is_not_lost() -> None:
    waiter = ProgressWaiter(ProgressMonitor(), report_s=600, stall_s=600, on_stall=print, tick_s=600)
    caller = asyncio.create_task(waiter.wait_until("the moon", lambda: None, 600))
    await asyncio.sleep(0)
    waiter.notify()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await caller
