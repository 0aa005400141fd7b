"""The suite of the Python client: thousands of calls queued at once, compared with a bare aiohttp session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import aiohttp

from sandbox_client import AsyncSandboxClient, ClientLimits

from .context import medians

if TYPE_CHECKING:
    from .context import Figures, Sizes
    from .load import Target


_CONNECTIONS = 64


async def queued_calls(yardstick: Target, sizes: Sizes) -> Figures:
    """Measure the client's CPU per call, with all calls queued at once and 64 in flight."""
    url = f"http://{yardstick.host}:{yardstick.port}"
    rounds: list[Figures] = []
    for _ in range(sizes.rounds):
        bare_ms = await _with_aiohttp(url, sizes.queued_calls)
        client_ms = await _with_client(url, sizes.queued_calls)
        rounds.append(
            {"cpu_ms_per_call": client_ms, "yardstick_cpu_ms_per_call": bare_ms, "ratio": client_ms / bare_ms}
        )
    return {"calls": sizes.queued_calls, **medians(rounds)}


async def _with_client(url: str, calls: int) -> float:
    async with AsyncSandboxClient(url, "key", limits=ClientLimits(in_flight=_CONNECTIONS)) as client:
        return await _cpu_ms(lambda: client.step("yardstick", "x", step_index=0), calls)


async def _with_aiohttp(url: str, calls: int) -> float:
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def call() -> None:
            body = {
                "instance_id": "yardstick",
                "message": {"role": "assistant", "content": "x"},
                "step_index": 0,
            }
            async with session.post(f"{url}/v1/step", json=body) as answer:
                await answer.json()

        return await _cpu_ms(call, calls)


async def _cpu_ms(call: Callable[[], Coroutine[None, None, object]], calls: int) -> float:
    await call()
    started = time.thread_time()
    await asyncio.gather(*(call() for _ in range(calls)))
    return (time.thread_time() - started) * 1e3 / calls
