"""Answers of FastAPI's routes that end early: refused, cut off, or given up since nothing is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from sandbox_service.config import QuotaConfig, ServerConfig
from sandbox_service.gateway.app import Gateway, build_app
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_registry
from tests.harness.slow_client import SlowClient
from tests.harness.waiting import until

KIB = 1024
MIB = 1024 * KIB
FILE = "/v1/instances/{}/files/big"


class LongHistories(EchoBackend):
    """A fleet that answers trajectories and lines of exports in parts of given sizes."""

    def __init__(self, *parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.asked_for_parts = 0
        self.before_part: dict[int, Callable[[], Awaitable[None]]] = {}
        """Coroutines that run before the part of a number is answered."""

    async def call(self, op, *, tenant, instance_id, meta, body, timeout_s):
        if op is not Op.TRAJECTORY:
            return await super().call(
                op, tenant=tenant, instance_id=instance_id, meta=meta, body=body, timeout_s=timeout_s
            )
        self.asked_for_parts += 1
        if happens := self.before_part.get(self.asked_for_parts):
            await happens()
        starts = {sum(self.parts[:number]): part for number, part in enumerate(self.parts)}
        details = {"total": sum(self.parts), **({"row": meta["row"]} if "row" in meta else {})}
        return Frame(Op.REPLY, 0, instance_id, details, b"x" * starts[meta["offset"]])


def app_of(backend: EchoBackend, timeout_s: float = 60.0) -> Gateway:
    keys = {digest("k"): "ada", digest("q"): "bob"}
    config = ServerConfig(max_body_bytes=MIB, bodies_mib=2, body_timeout_s=timeout_s, api_keys=keys)
    return build_app(config, make_registry(), backend, quota=QuotaConfig(bodies_mib=1))


async def instance_of(app: Gateway, backend: EchoBackend, file: int) -> str:
    client = SlowClient()
    await client.ask(app, "POST", "/v1/create_instance", b'{"environment":"echo","task_id":"echo-10"}')
    (instance_id,) = backend.episodes
    backend.episodes[instance_id].files["big"] = b"x" * file
    return instance_id


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[object, object]]:
    lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    return [(line["event"], line.get("code")) for line in lines]


async def requests_of(app: Gateway) -> str:
    client = SlowClient()
    client.reads.set()
    await client.ask(app, "GET", "/metrics")
    return client.body.decode()


async def test_a_client_that_does_not_read_is_no_defect(caplog):
    caplog.set_level(logging.INFO)
    backend = EchoBackend()
    app = app_of(backend, timeout_s=0.02)
    slow = SlowClient()
    await slow.ask(app, "GET", FILE.format(await instance_of(app, backend, MIB)))
    assert (slow.status, slow.complete, logged(caplog)) == (200, False, [])
    assert 'code="499"' in await requests_of(app)


async def test_a_trajectory_counts_as_a_whole_and_is_sent_completely_or_refused(caplog):
    caplog.set_level(logging.INFO)
    backend = LongHistories(*[50 * KIB] * 12)
    app = app_of(backend)
    path = f"/v1/instances/{await instance_of(app, backend, 0)}/trajectory"
    readers = [SlowClient() for _ in range(4)]
    reading = [asyncio.create_task(each.ask(app, "GET", path)) for each in readers]
    await until(lambda: all(each.status for each in readers))
    assert sorted(each.status for each in readers) == [200, 429, 429, 429]
    assert logged(caplog) == [("request_served", "queue_full")] * 3
    for each in [*readers, again := SlowClient()]:
        each.reads.set()
    await asyncio.gather(*reading)
    assert [len(each.body) for each in readers if each.status == 200] == [600 * KIB]
    assert all(each.complete for each in readers)
    await again.ask(app, "GET", path)
    assert (again.status, len(again.body), again.complete) == (200, 600 * KIB, True)


async def test_an_episode_in_a_download_counts_as_a_whole_until_its_line_is_sent():
    backend = LongHistories(*[50 * KIB] * 12)
    app = app_of(backend)
    instance_id = await instance_of(app, backend, 600 * KIB)
    backend.episodes["s1.2"] = backend.episodes[instance_id]
    client, other, again = SlowClient(), SlowClient(), SlowClient()
    reading = asyncio.create_task(client.ask(app, "GET", "/console/export"))
    await until(lambda: client.body)
    for each in (client, other, again):
        each.reads.set()
    await other.ask(app, "GET", FILE.format(instance_id))
    assert (other.status, other.complete) == (429, True)
    await reading
    assert (client.status, len(client.body), client.complete) == (200, 1200 * KIB, True)
    await again.ask(app, "GET", FILE.format(instance_id))
    assert again.status == 200


async def test_a_download_whose_later_episode_finds_no_room_is_cut_off_and_no_defect(caplog):
    caplog.set_level(logging.INFO)
    backend = LongHistories(400 * KIB)
    app = app_of(backend)
    instance_id = await instance_of(app, backend, MIB)
    backend.episodes["s1.2"] = backend.episodes[instance_id]
    client, other = SlowClient(), SlowClient()
    reading: list[asyncio.Task[None]] = []

    async def fill() -> None:
        reading.append(asyncio.create_task(other.ask(app, "GET", FILE.format(instance_id))))
        await until(lambda: other.body)

    backend.before_part[2] = fill
    client.reads.set()
    await client.ask(app, "GET", "/console/export")
    assert (client.status, len(client.body), client.complete) == (200, 400 * KIB, False)
    assert logged(caplog) == [("request_served", "queue_full")]
    other.reads.set()
    await asyncio.gather(*reading)
    assert other.complete


async def test_a_download_that_finds_no_room_fetches_no_further_episodes(caplog):
    caplog.set_level(logging.INFO)
    backend = LongHistories(200 * KIB)
    app = app_of(backend)
    instance_id = await instance_of(app, backend, MIB)
    for number in range(20):
        backend.episodes[f"s1.{number}"] = backend.episodes[instance_id]
    other, client = SlowClient(), SlowClient()
    reading = asyncio.create_task(other.ask(app, "GET", FILE.format(instance_id)))
    await until(lambda: other.body)
    client.reads.set()
    await client.ask(app, "GET", "/console/export")
    assert (client.status, client.complete, logged(caplog)) == (429, True, [("request_served", "queue_full")])
    assert backend.asked_for_parts == 1
    other.reads.set()
    await reading


async def test_a_page_of_the_console_that_finds_no_room_is_the_page_of_the_error():
    backend = EchoBackend()
    app = app_of(backend)
    instance_id = await instance_of(app, backend, MIB)
    long = {"messages": [{"role": "assistant", "content": "x" * 100 * KIB}]}
    backend.episodes[instance_id].further = [
        {"operation": "step", "request": {}, "result": {"observation": long}}
    ]
    other, client = SlowClient(), SlowClient()
    reading = asyncio.create_task(other.ask(app, "GET", FILE.format(instance_id)))
    await until(lambda: other.body)
    client.reads.set()
    await client.ask(app, "GET", f"/console/episodes/{instance_id}")
    assert (client.status, client.media_type) == (429, "text/html; charset=utf-8")
    assert b"answers that are being sent of this tenant leave no further room" in client.body
    other.reads.set()
    await reading
