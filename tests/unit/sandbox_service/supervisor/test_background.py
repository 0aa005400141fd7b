"""Background tasks have an owner, and an end."""

from __future__ import annotations

import asyncio

from sandbox_service.supervisor.background import BackgroundTasks


async def test_a_failing_task_takes_no_other_with_it() -> None:
    tasks = BackgroundTasks("test")

    async def fail() -> None:
        raise RuntimeError("no")

    async def succeed() -> int:
        await asyncio.sleep(0)
        return 7

    tasks.spawn(fail())
    fine = tasks.spawn(succeed())
    assert await tasks.finish(1.0)
    assert fine.result() == 7
    assert len(tasks) == 0


async def test_what_does_not_finish_in_time_can_be_cancelled() -> None:
    tasks = BackgroundTasks("test")
    stuck = tasks.spawn(asyncio.Event().wait())
    assert not await tasks.finish(0.001)
    await tasks.cancel()
    assert stuck.cancelled()


async def test_a_cancelled_task_has_a_time_to_clean_up_after_itself() -> None:
    tasks = BackgroundTasks("test")
    cleaned: list[str] = []

    async def clean_up(name: str, needed: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await needed.wait()
            cleaned.append(name)

    soon = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, soon.set)
    tasks.spawn(clean_up("soon", soon))
    tasks.spawn(clean_up("never", asyncio.Event()))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await tasks.cancel(clean_up_s=1.0)
    assert cleaned == ["soon"]
