"""The whole way of a request but for the stream: client, gateway, supervisor, fake boxes with real worlds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from sandbox_client.async_client import AsyncSandboxClient
from sandbox_client.errors import ConflictError, NotFoundError
from sandbox_conformance.backend import SupervisorBackend
from sandbox_contract.inspection import InstanceTrajectory
from sandbox_service.config import PoolConfig, ServerConfig
from sandbox_service.gateway.app import build_app
from tests.fakes.environments import fake_registry
from tests.harness.gateway import digest
from tests.harness.supervised import Supervised, supervised
from tests.harness.waiting import until

URL = "http://localhost"
KEYS = {digest("ada"): "ada", digest("bob"): "bob"}
HELLO = {"role": "assistant", "content": "hello"}


@pytest.fixture
async def service() -> AsyncIterator[Supervised]:
    narrow = PoolConfig(min_boxes=0, max_boxes=2, queue_limit=1)
    async with supervised(pools={"diary": narrow}) as service:
        yield service


@pytest.fixture
def transport(service: Supervised) -> httpx.ASGITransport:
    app = build_app(ServerConfig(api_keys=KEYS), fake_registry(), SupervisorBackend([service.core]))
    return httpx.ASGITransport(app=app)


@pytest.fixture
async def client(transport: httpx.ASGITransport) -> AsyncIterator[AsyncSandboxClient]:
    async with AsyncSandboxClient(URL, "ada", transport=transport) as client:
        yield client


@pytest.fixture
async def http(transport: httpx.ASGITransport) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer ada"}
    async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as http:
        yield http


async def test_our_client_plays_an_episode(client):
    profile = await client.get_env_profile("echo")
    created = await client.create_instance("echo", profile.task_ids[0])
    step = await client.step(created.instance_id, "hello", step_index=0)
    assert (step.reward, step.terminated) == (1.0, True)
    with pytest.raises(ConflictError):
        await client.step(created.instance_id, "more")
    assert (await client.evaluate(created.instance_id)).success
    assert (await client.release_instance(created.instance_id)).released
    history = await client.trajectory(created.instance_id)
    assert [event.operation for event in history.events] == ["create", "step", "evaluate", "release"]


async def test_an_instance_of_another_tenant_does_not_exist(client, transport):
    created = await client.create_instance("echo", "echo-10")
    async with AsyncSandboxClient(URL, "bob", transport=transport) as other:
        with pytest.raises(NotFoundError):
            await other.step(created.instance_id, "mine now")
        assert (await other.instances()).instances == ()


async def test_a_listing_of_several_supervisors_names_each_instance_once(service):
    async with supervised(name="s2") as other:
        made = {
            await each.create() for each in (service, service, service, service, service, other, other, other)
        }
        app = build_app(
            ServerConfig(api_keys=KEYS), fake_registry(), SupervisorBackend([service.core, other.core])
        )
        headers = {"Authorization": "Bearer ada"}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=URL, headers=headers) as http:
            listed, more = [], {}
            for _ in range(3):
                page = (await http.get("/v1/instances", params={"limit": 2, **more})).json()
                listed += [each["instance_id"] for each in page["instances"]]
                more = {"cursor": page["next_cursor"]}
    assert more == {"cursor": None}
    assert len(listed) == len(made)
    assert set(listed) == made


async def test_a_history_of_any_length_is_read_page_by_page(client, http):
    created = await client.create_instance("echo", "echo-10")
    for number in range(3):
        await client.step(created.instance_id, f"m{number}")
    path = f"/v1/instances/{created.instance_id}/trajectory"
    first = (await http.get(path, params={"limit": 3})).json()
    rest = (await http.get(path, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert rest["next_cursor"] is None
    whole = (await http.get(path)).json()
    assert whole == {**first, "events": first["events"] + rest["events"], "next_cursor": None}
    assert (await client.trajectory(created.instance_id)).model_dump(mode="json") == whole


async def test_a_history_of_megabytes_arrives_whole(client, http):
    created = await client.create_instance("echo", "echo-10")
    said = "x" * 3_000_000
    await client.step(created.instance_id, said)
    path = f"/v1/instances/{created.instance_id}/trajectory"
    answer = await http.get(path)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == "application/json"
    events = InstanceTrajectory.model_validate_json(answer.content).events
    assert [event.operation for event in events] == ["create", "step"]
    assert events[1].request is not None
    assert events[1].request["message"] == {"role": "assistant", "content": said}
    head = await http.head(path)
    assert (head.headers["content-length"], head.content) == (answer.headers["content-length"], b"")


async def test_instances_are_listed_page_by_page(client, http):
    made = [(await client.create_instance("echo", "echo-10")).instance_id for _ in range(5)]
    listed, params = [], {"limit": 2}
    while True:
        page = (await http.get("/v1/instances", params=params)).json()
        assert len(page["instances"]) <= 2
        listed += [each["instance_id"] for each in page["instances"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert listed == made
    assert [each.instance_id for each in (await client.instances()).instances] == made


async def test_one_key_is_one_execution_by_whichever_route(http, service):
    body = {"environment": "echo", "task_id": "echo-10"}
    instance_id = (await http.post("/v1/create_instance", json=body)).json()["instance_id"]
    step = {"message": HELLO, "instance_id": instance_id}
    single = await http.post("/v1/step", json=step, headers={"Idempotency-Key": "k"})
    again = await http.post("/v1/step", content=single.request.content, headers={"Idempotency-Key": "k"})
    operation = {"operation": "step", "request": {"idempotency_key": "k", **step}}
    batched = await http.post("/v1/batch", json={"operations": [operation]})
    assert again.content == single.content
    assert batched.json()["results"][0]["body"] == single.json()
    assert single.headers["server-timing"].startswith("queue;dur=")
    status = (await http.get(f"/v1/instances/{instance_id}")).json()
    assert status["step_index"] == 1


async def test_a_batch_creates_steps_and_releases_many(http):
    create = {"operation": "create_instance", "request": {"environment": "echo", "task_id": "echo-endless"}}
    made = (await http.post("/v1/batch", json={"operations": [create] * 64})).json()["results"]
    ids = [each["body"]["instance_id"] for each in made]
    assert len(set(ids)) == 64
    for verb, fields in (("step", {"message": HELLO}), ("release_instance", {})):
        operations = [{"operation": verb, "request": {"instance_id": each, **fields}} for each in ids]
        results = (await http.post("/v1/batch", json={"operations": operations})).json()["results"]
        assert {each["status"] for each in results} == {200}
    stats = (await http.get("/v1/stats")).json()
    assert (stats["instances"], stats["supervisors"][0]["name"]) == (0, "s1")


async def test_a_full_queue_is_429_with_a_time_to_wait(http, service):
    body = {"environment": "diary", "task_id": "echo-10"}
    living = [await http.post("/v1/create_instance", json=body) for _ in range(2)]
    waiting = asyncio.create_task(http.post("/v1/create_instance", json=body))
    await until(lambda: any(pool.queued for pool in service.core.stats().pools))
    refused = await http.post("/v1/create_instance", json=body)
    assert (refused.status_code, refused.json()["failure_class"]) == (429, "capacity")
    assert int(refused.headers["retry-after"]) >= 1
    await http.post("/v1/release_instance", json={"instance_id": living[0].json()["instance_id"]})
    assert (await waiting).status_code == 200


async def test_the_public_protocol_works_through_the_same_verbs(http, service):
    body = {"env_type": "echo", "task_id": "echo-1", "instance_id": "mine", "messages": {}, "params": {}}
    created = (await http.post("/create", json=body)).json()["data"]
    assert created["info"]["instance_id"] == "mine"
    assert (await http.post("/create", json=body)).json()["data"] == created
    assert (await http.post("/create", json={**body, "task_id": "echo-10"})).status_code == 409
    step = {"env_type": "default", "task_id": None, "instance_id": "mine", "messages": HELLO, "params": {}}
    stepped = (await http.post("/step", json=step)).json()["data"]
    assert (stepped["is_terminated"], stepped["state"][0]["content"]) == (True, "hello")
    assert (await http.post("/step", json=step)).status_code == 409
    sparse = {**step, "messages": {}, "params": {"sparse": True}}
    assert (await http.post("/evaluate", json=sparse)).json()["data"] == 1.0
    assert (await http.post("/get_info", json=step)).json()["data"]["state"] == "finished"
    answers = [(await http.post("/release", json=step)).json()["success"] for _ in range(2)]
    assert answers == [True, False]
    assert (await http.post("/step", json=step)).status_code == 400


async def test_the_manager_releases_what_a_box_made(http, service):
    box = (await http.post("/mgr/create_from_pool", json={"sandbox_type": "echo"})).json()["data"]
    call = {"identity": box, "tool_name": "create_instance", "arguments": {"task_id": "echo-10"}}
    data = (await http.post("/mgr/call_tool", json=call)).json()["data"]
    assert (await http.post("/mgr/release", json={"identity": box})).json() == {"data": True}
    states = (await http.get("/v1/instances")).json()["instances"]
    assert [(each["instance_id"], each["state"]) for each in states] == [
        (data["info"]["instance_id"], "released")
    ]
