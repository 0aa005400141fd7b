"""Sandboxes that are slow: every step waits before it reaches the service, most of them little, a few long.

The wait is drawn from a seed, the episode's task and seed, which of its task's episodes it is, and its step:
runs that play the same episodes meet the same waits, whatever they play at the same time.
"""

import asyncio
import json
import math
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

CREATE, STEP = "/v1/create_instance", "/v1/step"
HOP_BY_HOP = frozenset({"connection", "content-length", "host", "transfer-encoding", "content-encoding"})
MOST_BYTES = 64 * 1024 * 1024
START_S = 30.0


@dataclass(frozen=True, slots=True)
class LongTail:
    """Log-normal seconds."""

    median_s: float
    sigma: float
    most_s: float
    seed: int = 0

    def seconds(self, *what: object) -> float:
        """The wait of one step, the same whenever it is asked for."""
        drawn = random.Random(f"{self.seed} {what}").gauss(0.0, 1.0)
        return min(self.most_s, self.median_s * math.exp(self.sigma * drawn))


@dataclass(slots=True)
class SlowService:
    """Passes everything on to a service."""

    url: str
    tail: LongTail
    session: aiohttp.ClientSession | None = None
    waited: list[float] = field(default_factory=list)
    """Seconds of the steps so far."""
    _begun: Counter[str] = field(default_factory=Counter)
    _episodes: dict[str, tuple[str, int]] = field(default_factory=dict)

    def forget(self) -> None:
        """Another run begins, whose episodes are counted from 0."""
        self.waited, self._begun, self._episodes = [], Counter(), {}

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.path == STEP:
            await self._wait(json.loads(body))
        assert self.session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        target = f"{self.url}{request.path_qs}"
        async with self.session.request(request.method, target, data=body, headers=headers) as answer:
            said = await answer.read()
            if request.path == CREATE and answer.status == 200:
                self._note(json.loads(body), json.loads(said))
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            return web.Response(status=answer.status, body=said, headers=kept)

    def _note(self, asked: dict[str, object], created: dict[str, object]) -> None:
        episode = f"{asked.get('task_id')} {asked.get('seed')}"
        self._episodes[str(created["instance_id"])] = (episode, self._begun[episode])
        self._begun[episode] += 1

    async def _wait(self, step: dict[str, object]) -> None:
        episode = self._episodes.get(str(step.get("instance_id")), ("", 0))
        seconds = self.tail.seconds(*episode, step.get("step_index"))
        self.waited.append(seconds)
        await asyncio.sleep(seconds)


@contextmanager
def slow_service(url: str, tail: LongTail) -> Iterator[tuple[str, SlowService]]:
    """The address of a slow way to the service, while the block runs, in a thread of its own."""
    slow = SlowService(url.rstrip("/"), tail)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        runner, port = asyncio.run_coroutine_threadsafe(_start(slow), loop).result(START_S)
        try:
            yield f"http://127.0.0.1:{port}", slow
        finally:
            asyncio.run_coroutine_threadsafe(_stop(slow, runner), loop).result(START_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _start(slow: SlowService) -> tuple[web.AppRunner, int]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    slow.session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", slow.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, runner.addresses[0][1]


async def _stop(slow: SlowService, runner: web.AppRunner) -> None:
    assert slow.session is not None
    await runner.cleanup()
    await slow.session.close()
