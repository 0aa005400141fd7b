"""Reading of bodies: in pieces, within a size, a time, and a number of bytes for a tenant and for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import QuotaConfig, ServerConfig
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.gateway.app import build_app
from sandbox_service.gateway.body_reader import BodyReader, ClientDisconnected
from sandbox_service.gateway.exchange import HttpExchange
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_registry
from tests.harness.waiting import settle

MIB = 1024 * 1024


def receiver(*messages: dict[str, object]):
    waiting: Iterator[dict[str, object]] = iter(messages)

    async def receive() -> dict[str, object]:
        return next(waiting)

    return receive


def chunk(body: bytes, more: bool = True) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


def request(tenant: str = "ada", length: object = None) -> HttpExchange:
    headers = {} if length is None else {b"content-length": str(length).encode()}
    return HttpExchange("r", "POST", "/v1/step", headers, tenant=tenant)


def reader(limit: int = 4, most: int = 100, of_one: int = 100, timeout_s: float = 60.0) -> BodyReader:
    return BodyReader(limit, timeout_s, most, of_one)


async def test_a_body_in_chunks_is_put_together():
    receive = receiver(chunk(b"ab"), chunk(b"cd"), chunk(b"", more=False))
    assert await reader().read(request(), receive) == b"abcd"


async def test_a_body_over_the_limit_is_refused_while_it_streams():
    with pytest.raises(ServiceError) as caught:
        await reader().read(request(), receiver(chunk(b"abc"), chunk(b"de")))
    assert caught.value.code is ErrorCode.BODY_TOO_LARGE


@pytest.mark.parametrize("length", ["5", "9" * 400])
async def test_an_announced_length_over_the_limit_is_refused_unread(length):
    with pytest.raises(ServiceError) as caught:
        await reader().read(request(length=length), receiver())
    assert caught.value.code is ErrorCode.BODY_TOO_LARGE


async def test_a_client_that_leaves_in_mid_body_is_answered_with_nothing():
    with pytest.raises(ClientDisconnected):
        await reader().read(request(), receiver(chunk(b"a"), {"type": "http.disconnect"}))


async def refused(
    bodies: BodyReader, exchange: HttpExchange, *messages: dict[str, object]
) -> OverCapacityError:
    with pytest.raises(OverCapacityError) as caught:
        await bodies.read(exchange, receiver(*messages))
    bodies.release(exchange)
    return caught.value


async def test_bodies_count_by_their_announced_length_until_they_are_answered():
    bodies = reader(limit=60, most=100, of_one=100)
    first = request(length=60)
    await bodies.read(first, receiver(chunk(b"x" * 60, more=False)))
    error = await refused(bodies, request("bob", length=60))
    assert (error.code, error.retry_after_s) == (ErrorCode.QUEUE_FULL, 1.0)
    assert "server.bodies_mib" in error.detail
    bodies.release(first)
    bodies.release(first)
    assert bodies.held_bytes == 0
    await bodies.read(request("bob", length=60), receiver(chunk(b"x" * 60, more=False)))


async def test_a_body_of_unannounced_length_counts_as_it_comes():
    bodies = reader(limit=60, most=100, of_one=100)
    await bodies.read(request(), receiver(chunk(b"x" * 50), chunk(b"", more=False)))
    assert bodies.held_bytes == 50
    await refused(bodies, request("bob"), chunk(b"x" * 40), chunk(b"x" * 20))
    assert bodies.held_bytes == 50


async def test_the_bodies_of_one_tenant_leave_room_for_those_of_others():
    bodies = reader(limit=40, most=100, of_one=50)
    await bodies.read(request(length=40), receiver(chunk(b"x" * 40, more=False)))
    assert "quota.bodies_mib" in (await refused(bodies, request(length=40))).detail
    await bodies.read(request("bob", length=40), receiver(chunk(b"x" * 40, more=False)))


async def test_a_body_that_comes_drop_by_drop_ends_at_its_time_limit_and_counts_no_more():
    bodies = reader(limit=1000, timeout_s=0.05, most=1000, of_one=1000)
    exchange = request(length=1000)

    drops = iter([chunk(b"x")] * 5)

    async def receive() -> dict[str, object]:
        if (drop := next(drops, None)) is None:
            await asyncio.Event().wait()
        return drop

    with pytest.raises(ServiceError, match=r"server\.body_timeout_s") as caught:
        await bodies.read(exchange, receive)
    assert caught.value.code is ErrorCode.MALFORMED_HTTP
    assert exchange.hang_up
    bodies.release(exchange)
    assert bodies.held_bytes == 0


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/step"), ("PUT", "/v1/instances/i/files/a")])
async def test_the_gateway_refuses_bodies_over_its_bound_and_ends_the_connection(method, path):
    config = ServerConfig(max_body_bytes=MIB, bodies_mib=2, api_keys={digest("k"): "ada", digest("q"): "bob"})
    app = build_app(config, make_registry(), EchoBackend(), quota=QuotaConfig(bodies_mib=1))
    arrived = asyncio.Event()

    async def slowly():
        yield b"x"
        await arrived.wait()

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        def send(key: str, content: object) -> asyncio.Task[httpx.Response]:
            headers = {"x-api-key": key, "content-length": str(MIB)}
            return asyncio.create_task(client.request(method, path, content=content, headers=headers))

        slow = send("k", slowly())
        await settle()
        answer = await send("k", b"x" * MIB)
        assert (answer.status_code, answer.json()["code"]) == (429, "queue_full")
        assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
        assert (await send("q", b"x" * MIB)).status_code not in (429, 500)
        figures = (await client.get("/metrics", headers={"x-api-key": "k"})).text
        assert 'sandbox_gateway_body_bytes{replica="gateway"} 1.048576e+06' in figures
        arrived.set()
        await slow
        figures = (await client.get("/metrics", headers={"x-api-key": "k"})).text
        assert 'sandbox_gateway_body_bytes{replica="gateway"} 0.0' in figures


async def test_without_a_proxy_in_front_a_body_that_never_begins_is_given_up():
    async def silence() -> dict[str, object]:
        return await asyncio.get_running_loop().create_future()

    exchange = request(length=4)
    unfronted = BodyReader(4, 0.01, 100, 100, fronted=False)
    # Without the bound the body is waited for as long as its client likes.
    async with asyncio.timeout(60):
        with pytest.raises(ServiceError) as caught:
            await unfronted.read(exchange, silence)
    assert caught.value.code is ErrorCode.MALFORMED_HTTP
    assert exchange.hang_up


async def test_without_a_proxy_in_front_bodies_arrive_as_with_one():
    unfronted = BodyReader(4, 60.0, 100, 100, fronted=False)
    receive = receiver(chunk(b"ab"), chunk(b"cd"), chunk(b"", more=False))
    assert await unfronted.read(request(), receive) == b"abcd"
    assert await unfronted.read(request(), receiver(chunk(b"x", more=False))) == b"x"
