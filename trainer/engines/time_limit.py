"""End requests to a model at their time limit, with the tokens sampled so far."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

ABORT_EVERY_S = 0.2


@contextlib.asynccontextmanager
async def aborted_after(
    limit_s: float | None, abort: Callable[[], Awaitable[object]], every_s: float = ABORT_EVERY_S
) -> AsyncIterator[None]:
    """Abort the request that the block waits for, from its time limit on until the block ends.

    One abort is not enough: vLLM ignores that of a request that it has not registered yet, which it does
    after its own processing of the prompt and, over HTTP, after a repeated request has arrived.
    """
    aborting = None if limit_s is None else asyncio.create_task(_abort_from(limit_s, abort, every_s))
    try:
        yield
    finally:
        if aborting is not None:
            aborting.cancel()


async def _abort_from(limit_s: float, abort: Callable[[], Awaitable[object]], every_s: float) -> None:
    await asyncio.sleep(limit_s)
    while True:
        await abort()
        await asyncio.sleep(every_s)
