"""The door: ids, limits, unknown routes, clients that leave, and defects."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from sandbox_contract.problems import Problem
from sandbox_service.config import ServerConfig, ServiceConfig
from sandbox_service.gateway.app import build_app, build_configured_app
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_client, make_registry

PROFILE = {"environment": "echo"}
HOT = ["get_env_profile", "create_instance", "step", "evaluate", "release_instance", "fork_instance", "batch"]


async def test_a_request_id_is_taken_over_or_made(client):
    for good in ("run-7.a:b_c", "<script>", "x" * 128):
        reply = await client.post("/v1/get_env_profile", json={}, headers={"X-Request-Id": good})
        assert (reply.headers["x-request-id"], reply.json()["request_id"]) == (good, good)
    reply = await client.post("/v1/get_env_profile", json=PROFILE)
    assert re.fullmatch("[0-9a-f]{32}", reply.headers["x-request-id"])


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "\u00e9"])
@pytest.mark.parametrize("path", ["/v1/get_env_profile", "/v1/environments", "/healthz"])
async def test_a_request_id_that_cannot_be_taken_over_is_refused(client, path, bad):
    method = "POST" if path.endswith("profile") else "GET"
    headers = {"X-Request-Id": bad.encode("latin-1")}
    reply = await client.request(method, path, json=PROFILE, headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_request")
    assert "X-Request-Id" in reply.json()["detail"]
    assert reply.json()["request_id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/v1/environments", "/v1/instances", "/v1/stats", "/v1/nope"]
)
async def test_head_is_answered_as_get_is_and_without_a_body(client, path):
    got, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers.get("content-type") == got.headers.get("content-type")
    if path == "/v1/environments":
        assert head.headers["content-length"] == got.headers["content-length"]


async def test_head_is_answered_on_the_hot_routes_that_have_get(client):
    head = await client.head("/agentgym/textcraft/")
    assert (head.status_code, head.content) == ((await client.get("/agentgym/textcraft/")).status_code, b"")


async def test_an_unknown_route_is_a_problem(client):
    for path in ("/nope", "/v1/nope", "/v1/step/", "/v1"):
        reply = await client.get(path)
        problem = Problem.model_validate(reply.json())
        assert (reply.status_code, problem.code) == (404, "not_found")
        assert problem.detail == f"there is no route GET '{path}'"


async def test_the_path_of_an_unknown_route_is_shown_in_part(client):
    reply = await client.post("/v1/v1/" + "x" * 9000)
    assert reply.json()["detail"].startswith("there is no route POST '/v1/v1/xxx")
    assert len(reply.json()["detail"]) < 300


@pytest.mark.parametrize("verb", HOT)
async def test_another_method_is_a_problem_that_names_the_right_one(client, verb):
    reply = await client.get(f"/v1/{verb}")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["content-type"] == "application/problem+json"


async def test_another_method_on_the_other_routes_is_the_same_problem(client):
    reply = await client.delete("/v1/stats")
    assert (reply.status_code, reply.json()["code"], reply.headers["allow"]) == (
        405,
        "method_not_allowed",
        "GET, HEAD",
    )


async def test_allow_names_the_methods_of_every_route_of_the_path(client, instance):
    reply = await client.post(f"/v1/instances/{instance}/files/a.txt")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, PUT")


@pytest.mark.parametrize("verb", HOT)
async def test_bodies_have_a_limit_on_every_hot_route(backend, verb):
    async with make_client(backend, ServerConfig(max_body_bytes=64)) as client:
        reply = await client.post(f"/v1/{verb}", content=b" " * 65)
        assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")
    assert backend.calls == []


@pytest.mark.parametrize("verb", HOT)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed_json"),
        (b"{", 400, "malformed_json"),
        (b'{"a":NaN}', 400, "malformed_json"),
        (b"[" * 1000, 400, "json_too_deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, 400, "json_too_deep"),
        (b"[]", 422, "invalid_request"),
        (b'"text"', 422, "invalid_request"),
        (b"{}", 422, "invalid_request"),
        (b'{"unknown_field":1}', 422, "invalid_request"),
    ],
)
async def test_bad_bodies_are_refused_on_every_hot_route(client, backend, verb, body, status, code):
    reply = await client.post(f"/v1/{verb}", content=body)
    problem = Problem.model_validate(reply.json())
    assert (reply.status_code, problem.code, problem.failure_class) == (status, code, "request")
    assert problem.request_id == reply.headers["x-request-id"]
    assert backend.calls == []


MESSAGE = {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(
    ("verb", "body", "status", "code"),
    [
        ("get_env_profile", {"environment": "nope"}, 404, "unknown_environment"),
        ("get_env_profile", {"environment": "echo", "split": "nope"}, 404, "unknown_split"),
        ("get_env_profile", {"environment": 5}, 422, "invalid_request"),
        ("get_env_profile", {"environment": "echo", "limit": 0}, 422, "invalid_request"),
        ("create_instance", {"environment": "nope", "task_id": "t"}, 404, "unknown_environment"),
        ("create_instance", {"environment": "echo", "task_id": "nope"}, 404, "unknown_task"),
        ("create_instance", {"environment": "echo", "task_id": 1}, 422, "invalid_request"),
        ("create_instance", {"environment": "echo", "task_id": "echo-1", "seed": -1}, 422, "invalid_request"),
        ("create_instance", {"environment": "echo", "task_id": "echo-1", "x": 1}, 422, "invalid_request"),
        (
            "create_instance",
            {"environment": "echo", "task_id": "e", "instance_id": ""},
            422,
            "invalid_request",
        ),
        ("step", {"instance_id": "nobody", "message": MESSAGE}, 404, "unknown_instance"),
        ("step", {"instance_id": "i", "message": "hi"}, 422, "invalid_request"),
        ("step", {"instance_id": "i", "message": {"role": "robot"}}, 422, "invalid_request"),
        ("step", {"instance_id": "i", "message": MESSAGE, "timeout_s": 0}, 422, "invalid_request"),
        ("step", {"instance_id": "i", "message": {**MESSAGE, "tool_calls": [{}]}}, 422, "invalid_request"),
        ("step", {"instance_id": "../x", "message": MESSAGE}, 422, "invalid_request"),
        ("evaluate", {"instance_id": "nobody"}, 404, "unknown_instance"),
        ("evaluate", {"instance_id": "i", "params": []}, 422, "invalid_request"),
        ("release_instance", {"instance_id": "nobody"}, 404, "unknown_instance"),
        ("fork_instance", {"instance_id": "nobody"}, 404, "unknown_instance"),
        ("fork_instance", {"instance_id": "i", "count": 65}, 422, "invalid_request"),
    ],
)
async def test_bad_input_has_a_typed_error(client, verb, body, status, code):
    reply = await client.post(f"/v1/{verb}", json=body)
    assert (reply.status_code, reply.json()["code"]) == (status, code)


async def call(
    app: object, receive: object, path: str = "/v1/step", method: str = "POST"
) -> list[dict[str, object]]:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": []}
    await app({**scope, "query_string": b"", "root_path": "", "http_version": "1.1"}, receive, send)
    return sent


@pytest.mark.parametrize("path", ["/v1/step", "/v1/instances/i/files/a"])
async def test_a_client_that_leaves_in_mid_body_is_not_answered_as_a_defect(backend, path):
    app = build_app(ServerConfig(), make_registry(), backend)

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    sent = await call(app, receive, path, "POST" if path == "/v1/step" else "PUT")
    assert [message.get("status", 499) for message in sent][:1] in ([], [499])
    assert backend.calls == []


async def test_a_client_that_leaves_in_mid_step_does_not_disturb_the_count(backend):
    class SlowBackend(EchoBackend):
        async def call(self, op: Op, **details: object) -> Frame:
            await asyncio.Event().wait()
            raise AssertionError

    app = build_app(ServerConfig(), make_registry(), SlowBackend())
    body = b'{"instance_id":"i","message":{"role":"assistant"}}'

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    task = asyncio.create_task(call(app, receive))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sent = await call(app, receive, "/metrics", "GET")
    assert b'requests_total{code="499",replica="gateway",route="/v1/step"} 1.0' in sent[1]["body"]
    assert b'sandbox_gateway_in_flight{replica="gateway"} 1.0' in sent[1]["body"]


async def test_a_defect_behind_the_framework_is_a_problem_too(client, backend, instance):
    backend.failures[Op.TRAJECTORY] = RuntimeError("secret")
    reply = await client.get(f"/v1/instances/{instance}/trajectory")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal")
    assert "secret" not in reply.text


async def test_lifespan_is_answered():
    app = build_app(ServerConfig(), make_registry(), EchoBackend())
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return inbox.pop(0)

    async def send(message: dict[str, str]) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("queue_timeout_s", [5, 900])
async def test_creates_and_forks_wait_as_long_as_the_queue_of_any_environment(backend, queue_timeout_s):
    pools = {"pools": {"echo": {"queue_timeout_s": queue_timeout_s}}}
    app = build_configured_app(ServiceConfig.model_validate(pools), backend)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        made = await client.post("/v1/create_instance", json={**PROFILE, "task_id": "echo-10"})
        await client.post("/v1/fork_instance", json={"instance_id": made.json()["instance_id"]})
    waits_s = {call.op: call.timeout_s for call in backend.calls}
    assert waits_s[Op.CREATE] == waits_s[Op.FORK] > max(queue_timeout_s, 60)
