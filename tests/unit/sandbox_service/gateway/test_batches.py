"""Batches: operations that run at once, each with its own answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandbox_contract.batches import MAX_BATCH, BatchResult
from sandbox_service.config import QuotaConfig, ServerConfig
from sandbox_service.errors import OverCapacityError
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.harness.gateway import digest, make_registry
from tests.harness.slow_client import SlowClient
from tests.harness.waiting import until

MIB = 1024 * 1024


def step(instance: str, **fields: object) -> dict[str, object]:
    message = {"role": "assistant", "content": "hi"}
    return {"operation": "step", "request": {"instance_id": instance, "message": message, **fields}}


async def test_each_operation_has_its_own_status_body_and_timing(client, backend, instance):
    operations = [
        {"operation": "create_instance", "request": {"environment": "echo", "task_id": "echo-1"}},
        step(instance),
        step("nobody"),
        {"operation": "evaluate", "request": {"instance_id": instance}},
    ]
    reply = await client.post("/v1/batch", json={"operations": operations})
    result = BatchResult.model_validate(reply.json())
    assert [each.status for each in result.results] == [200, 200, 404, 200]
    assert result.results[1].body["observation"]["messages"][0]["content"] == "hi"
    assert result.results[1].timing == {"queue": 0.1, "route": 0.2, "run": 0.3}
    assert result.results[2].body["code"] == "unknown_instance"
    assert result.results[2].body["instance"] == "nobody"


async def test_every_verb_on_instances_can_be_batched(client, instance):
    fork = {"operation": "fork_instance", "request": {"instance_id": instance, "count": 2}}
    reply = (await client.post("/v1/batch", json={"operations": [fork]})).json()
    copies = reply["results"][0]["body"]["instance_ids"]
    release = [{"operation": "release_instance", "request": {"instance_id": each}} for each in copies]
    reply = (await client.post("/v1/batch", json={"operations": release})).json()
    assert [each["body"]["released"] for each in reply["results"]] == [True, True]


async def test_a_step_has_the_same_bytes_in_a_batch_as_on_its_own(client, backend, instance):
    single = step(instance, idempotency_key="k")["request"]
    alone = await client.post("/v1/step", json=single)
    batched = await client.post("/v1/batch", json={"operations": [step(instance, idempotency_key="k")]})
    assert batched.json()["results"][0]["body"] == alone.json()
    assert backend.episodes[instance].steps == 1


async def test_refused_operations_harm_no_other(client, backend, instance):
    backend.failures[Op.CREATE] = OverCapacityError("full", 1.0)
    backend.failures[Op.EVALUATE] = RuntimeError("secret")
    operations = [
        {"operation": "create_instance", "request": {"environment": "echo", "task_id": "echo-1"}},
        {"operation": "evaluate", "request": {"instance_id": instance}},
        step(instance),
    ]
    reply = await client.post("/v1/batch", json={"operations": operations})
    results = reply.json()["results"]
    assert [each["status"] for each in results] == [429, 500, 200]
    assert results[0]["body"]["retry_after_s"] == 1.0
    assert "secret" not in reply.text


async def test_a_step_by_another_than_the_assistant_fails_alone(client, instance):
    wrong = step(instance)
    wrong["request"]["message"]["role"] = "user"
    reply = await client.post("/v1/batch", json={"operations": [wrong]})
    assert reply.json()["results"][0]["status"] == 422


@pytest.mark.parametrize("count", [0, MAX_BATCH + 1])
async def test_a_batch_has_one_to_256_operations(client, instance, count):
    reply = await client.post("/v1/batch", json={"operations": [step("i")] * count})
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")


async def test_a_full_batch_is_answered_in_order(client, backend):
    operations = [step(f"i{index}") for index in range(MAX_BATCH)]
    results = (await client.post("/v1/batch", json={"operations": operations})).json()["results"]
    assert [each["body"]["instance"] for each in results] == [f"i{index}" for index in range(MAX_BATCH)]


async def test_one_key_for_a_whole_batch_is_refused(client, instance):
    body = {"operations": [step(instance)]}
    reply = await client.post("/v1/batch", json=body, headers={"Idempotency-Key": "k"})
    assert reply.status_code == 422


async def test_an_unknown_operation_is_refused_without_an_echo_of_it(client):
    reply = await client.post("/v1/batch", json={"operations": [{"operation": "x" * 5000, "request": {}}]})
    assert reply.status_code == 422
    assert len(reply.content) < 1000


def create(key: str) -> dict[str, str]:
    return {"environment": "echo", "task_id": "echo-1", "idempotency_key": key}


async def test_results_beyond_the_room_for_answers_are_refused_one_by_one_and_can_be_asked_for_again(backend):
    config = ServerConfig(max_body_bytes=MIB, bodies_mib=8, api_keys={digest("k"): "ada", digest("q"): "bob"})
    app = build_app(config, make_registry(), backend, quota=QuotaConfig(bodies_mib=2))
    backend.images = ["x" * (MIB // 2)]
    operations = [{"operation": "create_instance", "request": create(f"k{number}")} for number in range(8)]
    slow, other, again = SlowClient("k"), SlowClient("q"), SlowClient("k")
    body = json.dumps({"operations": operations}).encode()
    batch = asyncio.create_task(slow.ask(app, "POST", "/v1/batch", body))
    await until(lambda: slow.body)
    other.reads.set()
    await other.ask(app, "POST", "/v1/create_instance", json.dumps(create("k")).encode())
    assert (other.status, len(backend.episodes)) == (200, 9)
    slow.reads.set()
    await batch
    results = BatchResult.model_validate_json(slow.body).results
    assert (slow.status, [each.status for each in results]) == (200, [200] * 3 + [503] * 5)
    assert results[3].body["code"] == "outcome_unknown"
    again.reads.set()
    await again.ask(app, "POST", "/v1/create_instance", json.dumps(create("k3")).encode())
    assert (again.status, len(backend.episodes)) == (200, 9)
