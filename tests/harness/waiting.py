"""Waiting for something to become true, without saying how long it takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


def wait_until(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; the test's own time limit is the bound."""
    while not condition():
        time.sleep(0.005)


async def until(condition: Callable[[], object], wall_timeout_s: float = 120.0) -> None:
    """Return as soon as the condition holds; fail when it does not come to hold."""
    async with asyncio.timeout(wall_timeout_s):
        while not condition():  # noqa: ASYNC110 (what is waited for raises no event)
            await asyncio.sleep(0.002)


async def until_answered(
    ask: Callable[[], Awaitable[AnswerT]], right: Callable[[AnswerT], object], wall_timeout_s: float = 120.0
) -> AnswerT:
    """Ask several times a second until the answer is right, and return it; fail when it does not come."""
    async with asyncio.timeout(wall_timeout_s):
        while not right(answer := await ask()):  # noqa: ASYNC110 (what is asked raises no event)
            await asyncio.sleep(0.2)
    return answer


async def settle(turns: int = 100) -> None:
    """Run what is ready, and what that makes ready; counts turns of the loop, not seconds."""
    for _ in range(turns):
        await asyncio.sleep(0)
