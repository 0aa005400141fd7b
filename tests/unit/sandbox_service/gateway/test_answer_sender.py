"""Answers that clients read slowly: counted, refused beyond the bounds, and given up after a time."""

from __future__ import annotations

import asyncio

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import QuotaConfig, ServerConfig
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.gateway.answer_sender import AnswerSender, GrowingAnswer
from sandbox_service.gateway.app import Gateway, build_app
from sandbox_service.gateway.body_reader import ClientDisconnected
from sandbox_service.gateway.exchange import HttpExchange
from sandbox_service.gateway.held_bytes import HeldBytes
from sandbox_service.gateway.responses import HttpResponse
from sandbox_service.wire.frames import Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_registry
from tests.harness.slow_client import SlowClient
from tests.harness.waiting import settle, until

MIB = 1024 * 1024
KIB = 1024


def exchange(tenant: str = "ada", *, executed: bool = False) -> HttpExchange:
    return HttpExchange("r", "POST", "/v1/x", {}, tenant=tenant, executed=executed)


def sender(most: int = 2 * MIB, of_one: int = MIB, unit_s: float = 60.0) -> AnswerSender:
    return AnswerSender(HeldBytes("answers", most, of_one), MIB, unit_s)


def test_small_answers_are_not_counted():
    answers = sender(of_one=1)
    for _ in range(100):
        answers.admit(exchange(), 64 * KIB)


def test_an_answer_counts_until_it_is_sent_for_its_tenant_and_for_all():
    answers = sender(most=2 * MIB, of_one=MIB)
    first = exchange()
    answers.admit(first, MIB)
    with pytest.raises(OverCapacityError, match=r"quota\.bodies_mib"):
        answers.admit(exchange(), 65 * KIB)
    answers.admit(exchange("bob"), MIB)
    with pytest.raises(OverCapacityError, match=r"server\.bodies_mib"):
        answers.admit(exchange("eve"), 65 * KIB)
    answers.release(first)
    answers.release(first)
    answers.admit(exchange("eve"), 65 * KIB)


def test_an_answer_larger_than_the_bound_is_sent_alone():
    answers = sender()
    answers.admit(exchange(), 3 * MIB)


def test_an_operation_whose_answer_finds_no_room_has_an_unknown_outcome():
    answers = sender()
    answers.admit(exchange(), MIB)
    with pytest.raises(ServiceError, match="idempotency key") as caught:
        answers.admit(exchange(executed=True), MIB)
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN


def test_an_answer_that_is_put_together_from_parts_counts_as_they_come():
    answers, growing = sender(), exchange(executed=True)
    parts = GrowingAnswer(answers, growing)
    for _ in range(20):
        parts.admit(50 * KIB)
    assert growing.answer_bytes == 1000 * KIB
    with pytest.raises(ServiceError, match=r"quota\.bodies_mib"):
        parts.admit(100 * KIB)
    parts.admit(20 * KIB)
    answers.release(growing)
    answers.admit(exchange(), MIB)


async def test_a_client_that_does_not_read_in_time_is_given_up():
    client, asked = SlowClient(), exchange()
    with pytest.raises(ClientDisconnected):
        await sender(unit_s=0.02).send(client.send, asked, HttpResponse(200, b"x" * MIB))
    assert (asked.status, client.complete, len(client.body)) == (499, False, 128 * KIB)


async def test_a_client_that_reads_gets_the_whole_answer():
    client = SlowClient()
    client.reads.set()
    body = bytes(range(256)) * 1000
    await sender().send(client.send, exchange(), HttpResponse(200, body))
    assert (client.status, client.complete, client.body) == (200, True, body)


@pytest.mark.parametrize(("method", "code"), [("GET", 429), ("POST", 503)])
async def test_the_gateway_refuses_answers_beyond_those_that_are_not_read(method, code):
    keys = {digest("k"): "ada", digest("q"): "bob"}
    config = ServerConfig(max_body_bytes=MIB, bodies_mib=2, api_keys=keys)
    backend = EchoBackend()
    app = build_app(config, make_registry(), backend, quota=QuotaConfig(bodies_mib=1))
    tenants = {"k": "ada", "q": "bob"}
    files = {key: await instance_with_file(app, backend, key, tenants[key]) for key in tenants}
    slow, late, other = SlowClient(), SlowClient(), SlowClient("q")
    first = asyncio.create_task(slow.ask(app, "GET", files["k"]))
    await settle()
    assert (slow.status, len(slow.body)) == (200, 128 * KIB)
    if method == "GET":
        await late.ask(app, "GET", files["k"])
    else:
        instance = files["k"].split("/")[3]
        step = b'{"instance_id":"%s","message":{"role":"assistant","content":"%s"}}'
        await late.ask(app, "POST", "/v1/step", step % (instance.encode(), b"x" * 100 * KIB))
    assert late.status == code
    other.reads.set()
    await other.ask(app, "GET", files["q"])
    assert (other.status, len(other.body)) == (200, MIB)
    slow.reads.set()
    await first
    again = SlowClient()
    again.reads.set()
    await again.ask(app, "GET", files["k"])
    assert (again.status, len(again.body)) == (200, MIB)


async def test_open_pages_that_are_not_read_take_no_room_from_tenants():
    backend = EchoBackend()
    config = ServerConfig(bodies_mib=8, api_keys={digest("k"): "ada"})
    app = build_app(config, make_registry(), backend)
    strangers = [SlowClient("unknown") for _ in range(50)]
    reading = [asyncio.create_task(each.ask(app, "GET", "/openapi.json")) for each in strangers]
    await until(lambda: strangers[-1].status != 0)
    assert {each.status for each in strangers} == {200, 429}
    file, reader = await instance_with_file(app, backend, "k", "ada"), SlowClient()
    reader.reads.set()
    await reader.ask(app, "GET", file)
    assert (reader.status, len(reader.body)) == (200, MIB)
    for each in strangers:
        each.reads.set()
    await asyncio.gather(*reading)
    late = SlowClient("unknown")
    late.reads.set()
    await late.ask(app, "GET", "/openapi.json")
    assert (late.status, late.complete) == (200, True)


async def instance_with_file(app: Gateway, backend: EchoBackend, key: str, tenant: str) -> str:
    """The path of a file of 1 MiB in a new instance."""
    client = SlowClient(key)
    await client.ask(app, "POST", "/v1/create_instance", b'{"environment":"echo","task_id":"echo-10"}')
    instance_id = next(each for each, episode in backend.episodes.items() if episode.tenant == tenant)
    backend.episodes[instance_id].files["big"] = b"x" * MIB
    assert backend.calls[-1].op is Op.CREATE
    return f"/v1/instances/{instance_id}/files/big"
