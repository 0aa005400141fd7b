"""The sandbox manager's three calls, as an unpatched box class of AgentScope makes them."""

from __future__ import annotations

import httpx
import pytest

from sandbox_service.config import ServerConfig
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.environments.registry import Registry
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import digest, make_client


async def make_box(client) -> str:
    sandbox = {"sandbox_type": "echo", "meta": {"session_ctx_id": "s"}}
    reply = await client.post("/mgr/create_from_pool", json=sandbox)
    assert list(reply.json()) == ["data"]
    return reply.json()["data"]


async def call(client, identity: str, tool: str, **arguments: object):
    body = {"identity": identity, "tool_name": tool, "arguments": arguments}
    reply = await client.post("/mgr/call_tool", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["data"]


async def test_an_episode_through_a_box(client, backend):
    box = await make_box(client)
    assert await call(client, box, "get_env_profile", env_type="echo", split="train") == ["echo-1", "echo-10"]
    assert await call(client, box, "get_task_ids", env_type=None, split=None) == ["echo-1", "echo-10"]
    fields = {"env_type": "echo", "task_id": "echo-1", "instance_id": None, "params": None}
    data = await call(client, box, "create_instance", **fields)
    instance_id = data["info"]["instance_id"]
    action = {"role": "assistant", "content": "hi"}
    stepped = await call(client, box, "step", instance_id=instance_id, action=action, params={})
    assert (stepped["state"][0]["content"], stepped["is_terminated"]) == ("hi", True)
    sparse = {"instance_id": instance_id, "messages": None, "params": {"sparse": True}}
    assert await call(client, box, "evaluate", **sparse) == 1.0
    assert await call(client, box, "release_instance", instance_id=instance_id) is True
    assert await call(client, box, "release_instance", instance_id=instance_id) is False


async def test_releasing_the_box_ends_the_instances_that_it_made_and_no_others(client, backend):
    box, other = await make_box(client), await make_box(client)
    mine = await call(client, box, "create_instance", task_id="echo-10")
    theirs = await call(client, other, "create_instance", task_id="echo-10")
    assert (await client.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    states = {name: each.released for name, each in backend.episodes.items()}
    assert states == {mine["info"]["instance_id"]: True, theirs["info"]["instance_id"]: False}


async def test_releasing_the_box_ends_instances_that_were_handed_over(client, backend):
    box = await make_box(client)
    made = await call(client, box, "create_instance", task_id="echo-10")
    backend.handed_over.add(made["info"]["instance_id"])
    assert (await client.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    assert [each.released for each in backend.episodes.values()] == [True]


async def test_a_box_is_not_released_while_a_supervisor_that_may_have_its_instances_is_away(client, backend):
    box = await make_box(client)
    await call(client, box, "create_instance", task_id="echo-10")
    backend.away = ("s2",)
    refused = await client.post("/mgr/release", json={"identity": box})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [each.released for each in backend.episodes.values()] == [False]


async def test_releasing_the_box_finds_the_instances_of_an_away_supervisor_in_the_one_store(client, backend):
    box = await make_box(client)
    made = await call(client, box, "create_instance", task_id="echo-10")
    backend.handed_over.add(made["info"]["instance_id"])
    backend.away, backend.one_database = ("s2",), True
    assert (await client.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    assert [each.released for each in backend.episodes.values()] == [True]


async def test_releasing_the_box_is_no_repetition_of_a_call_with_the_same_key(client, backend):
    box = await make_box(client)
    await call(client, box, "create_instance", task_id="echo-10", instance_id="mine")
    headers = {"idempotency-key": "k"}
    arguments = {"instance_id": "mine", "params": {"sparse": True}}
    body = {"identity": box, "tool_name": "evaluate", "arguments": arguments}
    assert (await client.post("/mgr/call_tool", json=body, headers=headers)).status_code == 200
    released = await client.post("/mgr/release", json={"identity": box}, headers=headers)
    assert released.json() == {"data": True}
    assert backend.episodes[f"{box}.mine"].released


async def test_instances_whose_ids_the_client_chose_end_with_their_box(client, backend):
    box, other = await make_box(client), await make_box(client)
    action = {"role": "assistant", "content": "hi"}
    for each in (box, other):
        data = await call(client, each, "create_instance", task_id="echo-10", instance_id="mine")
        assert data["info"]["instance_id"] == f"{each}.mine"
    for known in ("mine", f"{box}.mine"):
        stepped = await call(client, box, "step", instance_id=known, action=action)
        assert stepped["state"][0]["content"] == "hi"
    assert (await client.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    assert {name: each.released for name, each in backend.episodes.items()} == {
        f"{box}.mine": True,
        f"{other}.mine": False,
    }
    assert await call(client, other, "evaluate", instance_id="mine", params={"sparse": True}) == 0.0
    assert await call(client, other, "release_instance", instance_id="mine") is True


async def test_a_chosen_id_that_does_not_fit_behind_the_sandbox_id_works_too(client, backend):
    box = await make_box(client)
    action = {"role": "assistant", "content": "hi"}
    for chosen in ("a" * 128, "a" * 127, "a" * (127 - len(box))):
        data = await call(client, box, "create_instance", task_id="echo-10", instance_id=chosen)
        for known in (chosen, data["info"]["instance_id"]):
            await call(client, box, "step", instance_id=known, action=action)
    assert len(backend.episodes) == 3
    assert f"{box}.{'a' * (127 - len(box))}" in backend.episodes
    assert [each.steps for each in backend.episodes.values()] == [2, 2, 2]
    assert (await client.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    assert all(each.released for each in backend.episodes.values())


@pytest.mark.parametrize("chosen", ["a" * 129, "a b", "b " * 60])
async def test_a_chosen_id_that_is_no_instance_id_is_refused(client, chosen):
    arguments = {"task_id": "echo-10", "instance_id": chosen}
    body = {"identity": await make_box(client), "tool_name": "create_instance", "arguments": arguments}
    reply = await client.post("/mgr/call_tool", json=body)
    assert (reply.status_code, list(reply.json())) == (422, ["detail"])


async def test_an_instance_that_comes_to_wait_for_a_counterpart_is_released(client, backend):
    box = await make_box(client)
    instance_id = (await call(client, box, "create_instance", task_id="echo-10"))["info"]["instance_id"]
    backend.awaits = Op.STEP
    arguments = {"instance_id": instance_id, "action": {"role": "assistant", "content": "secret"}}
    body = {"identity": box, "tool_name": "step", "arguments": arguments}
    reply = await client.post("/mgr/call_tool", json=body)
    assert (reply.status_code, "secret" in reply.text) == (422, False)
    assert backend.episodes[instance_id].released


async def test_environments_with_hyphens_in_their_names_have_boxes():
    registry = Registry({"my-echo": EchoCatalog()})
    transport = httpx.ASGITransport(build_app(ServerConfig(), registry, EchoBackend()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        box = (await client.post("/mgr/create_from_pool", json={"sandbox_type": "my-echo"})).json()["data"]
        assert await call(client, box, "get_task_ids") == ["echo-1", "echo-10"]


async def test_an_unknown_box_is_refused_and_its_release_is_no_error(client):
    body = {"identity": "nobody", "tool_name": "step", "arguments": {}}
    reply = await client.post("/mgr/call_tool", json=body)
    assert (reply.status_code, list(reply.json())) == (400, ["detail"])
    assert (await client.post("/mgr/release", json={"identity": "nobody"})).json() == {"data": False}


async def test_an_unknown_kind_of_box_is_refused(client):
    reply = await client.post("/mgr/create_from_pool", json={"sandbox_type": "nope", "meta": None})
    assert (reply.status_code, list(reply.json())) == (400, ["detail"])


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [
        ("run_shell", {}, 422),
        ("step", {"instance_id": "i", "action": "text"}, 422),
        ("step", {"action": {}}, 400),
        ("step", {"instance_id": "nobody", "action": {}}, 400),
        ("create_instance", {}, 400),
    ],
)
async def test_bad_calls_are_refused(client, tool, arguments, status):
    body = {"identity": await make_box(client), "tool_name": tool, "arguments": arguments}
    reply = await client.post("/mgr/call_tool", json=body)
    assert (reply.status_code, list(reply.json())) == (status, ["detail"])


async def test_the_boxes_bearer_token_is_the_api_key():
    config = ServerConfig(api_keys={digest("token"): "a"})
    backend = EchoBackend()
    async with make_client(backend, config, {"Authorization": "Bearer token"}) as client:
        await call(client, await make_box(client), "create_instance", task_id="echo-1")
        assert backend.calls[-1].tenant == "a"
    async with make_client(backend, config) as client:
        reply = await client.post("/mgr/create_from_pool", json={"sandbox_type": "echo"})
        assert (reply.status_code, list(reply.json())) == (401, ["detail"])
