"""A time limit of an await: its result, its end, and a cancellation that comes with the result."""

import asyncio
from functools import partial

import httpx
import pytest

from sandbox_client import AsyncSandboxClient, ModelCounterpart
from sandbox_client._time_limit import within
from sandbox_contract.messages import Message
from tests.fakes.scripted_transport import ScriptedTransport

LARGE = 100_000
"""Characters of a body that is sent with a time limit."""


async def test_the_outcome_is_that_of_the_work() -> None:
    assert await within(60, asyncio.sleep(0, "done")) == "done"

    async def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await within(60, fail())


async def test_work_that_takes_too_long_is_cancelled() -> None:
    work = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, work)
    assert work.cancelled()


async def test_a_result_that_comes_in_spite_of_the_cancellation_counts() -> None:
    async def work() -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return "done"
        return "late"

    assert await within(0.01, work()) == "done"


async def test_a_cancellation_ends_the_work() -> None:
    work = asyncio.get_running_loop().create_future()
    caller = asyncio.create_task(within(60, work))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.cancelled()


class Held:
    """A service whose answer comes when it is released."""

    def __init__(self) -> None:
        self.asked, self.answered = asyncio.Event(), asyncio.Event()
        completion = {"choices": [{"message": {"role": "assistant", "content": "yes"}}]}
        self.transport = ScriptedTransport(lambda _: httpx.Response(200, json=completion), pause=self.hold)

    async def hold(self, _: httpx.Request) -> None:
        self.asked.set()
        await self.answered.wait()


async def call_service(held: Held) -> None:
    async with AsyncSandboxClient("http://service", transport=held.transport) as client:
        await client.step("i", Message(role="assistant", content="x" * LARGE))


async def call_counterpart(held: Held) -> None:
    model = ModelCounterpart("http://model/v1", "m", transport=held.transport)
    await model.write_reply([Message(role="user", content="Hello?")])


async def call_directly(held: Held) -> None:
    await within(60, held.hold(httpx.Request("GET", "http://service")))


@pytest.mark.parametrize("call", [call_directly, call_service, call_counterpart])
@pytest.mark.parametrize("turns", range(12), ids=partial("{} turns later".format))
async def test_a_cancellation_that_comes_with_the_result_is_not_lost(call, turns: int) -> None:
    held = Held()
    caller = asyncio.create_task(call(held))
    await held.asked.wait()
    held.answered.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    if not caller.done():
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
