import asyncio

import pytest

from local_processes.signals import StopRequest
from local_processes.stoppable import until_stopped


async def test_work_that_ends_gives_its_result() -> None:
    assert await until_stopped(asyncio.sleep(0, "done"), StopRequest()) == "done"


async def test_work_that_fails_raises() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until_stopped(fail(), StopRequest())


async def test_work_is_cancelled_when_the_process_is_to_end() -> None:
    stopping = StopRequest()
    stopping.set()
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    with pytest.raises(asyncio.CancelledError):
        await until_stopped(work(), stopping)
    assert ended == [True]
