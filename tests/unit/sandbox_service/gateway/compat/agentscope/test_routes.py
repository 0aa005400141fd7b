"""The AgentScope Runtime and AgentEvolver protocol, request by request as their clients send it."""

from __future__ import annotations

import json
import uuid

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.wire.frames import Op
from tests.harness.gateway import make_client

ROUTES = ["get_env_profile", "create", "step", "evaluate", "get_info", "release"]


def body(**fields: object) -> dict[str, object]:
    """Return a body as the three public clients send it: five fields, nulls, env_type "default" if unread."""
    blank = {"env_type": "default", "task_id": None, "instance_id": None, "messages": {}, "params": {}}
    return {**blank, **fields}


async def post(client, path: str, **fields: object):
    return await client.post(f"http://localhost{path}", json=body(**fields))


async def created(client, **fields: object) -> dict[str, object]:
    reply = await post(client, "/create", **{"env_type": "echo", "task_id": "echo-10", **fields})
    assert reply.status_code == 200, reply.text
    assert reply.json()["success"] is True
    return reply.json()["data"]


async def test_an_episode_as_the_agentevolver_trainer_plays_it(client):
    profile = await post(client, "//get_env_profile", env_type="echo", params={"split": "train"})
    assert profile.json() == {"success": True, "data": ["echo-1", "echo-10"]}
    instance_id = uuid.uuid4().hex
    data = await created(client, task_id="echo-1", instance_id=instance_id, params={"is_open_query": False})
    assert [each["role"] for each in data["state"]] == ["system", "user"], "the trainer asserts two messages"
    assert data["info"]["instance_id"] == instance_id
    action = {"content": "hello", "role": "assistant"}
    reply = (await post(client, "/step", instance_id=instance_id, messages=action)).json()
    assert len(reply["data"]["state"]) == 1, "the trainer asserts one message"
    assert reply["data"] == {
        "state": [{"role": "user", "content": "hello", "tool_calls": []}],
        "reward": 1.0,
        "is_terminated": True,
        "info": {},
    }
    score = (await post(client, "/evaluate", instance_id=instance_id, params={"sparse": True})).json()
    assert score == {"success": True, "data": 1.0}
    released = await post(client, "/release", instance_id=instance_id)
    assert released.json() == {"success": True, "data": None}


async def test_an_episode_as_the_agentevolver_service_client_plays_it(client):
    ids = (await post(client, "/get_env_profile", env_type="echo", params={"split": "train"})).json()["data"]
    data = await created(client, task_id=ids[1], params={})
    instance_id = data["info"]["instance_id"]
    info = (await post(client, "/get_info", instance_id=instance_id, messages={}, params={})).json()
    assert info["data"]["state"] == "active"
    action = {"role": "assistant", "content": "print('hello appworld!!')"}
    stepped = (await post(client, "/step", instance_id=instance_id, messages=action)).json()["data"]
    assert (stepped["is_terminated"], stepped["reward"]) == (False, 0.0)
    details = (await post(client, "/evaluate", instance_id=instance_id)).json()["data"]
    assert details == {"steps": 1, "score": 0.1, "success": False}
    assert (await post(client, "/release", instance_id=instance_id)).json()["success"] is True


async def test_the_agentscope_client_looks_at_healthz_first_and_sends_nulls(client):
    assert (await client.get("/healthz")).content == b"OK"
    nulls = body(env_type="echo", messages=None, params=None)
    assert (await client.post("/get_env_profile", json=nulls)).json()["data"] == ["echo-1", "echo-10"]
    data = await created(client, messages=None, params=None)
    instance_id = data["info"]["instance_id"]
    reply = await client.post("/evaluate", json=body(instance_id=instance_id, env_type=None, params=None))
    assert reply.json()["data"]["score"] == 0.0


async def test_unknown_fields_are_ignored_and_missing_ones_have_defaults(client):
    reply = await client.post("/get_env_profile", json={"env_type": "echo", "env": "x", "action": 1})
    assert reply.json()["data"] == ["echo-1", "echo-10"]


async def test_names_of_environments_are_read_in_any_case(client):
    reply = await post(client, "/get_env_profile", env_type=" Echo ")
    assert reply.status_code == 200


async def test_tools_are_part_of_the_system_prompt(client):
    data = await created(client, env_type="tools")
    system = data["state"][0]["content"]
    assert system.startswith("Any assistant message.")
    assert '<tools>\n{"type": "function", "function": {"name": "shout"' in system
    info = (await post(client, "/get_info", instance_id=data["info"]["instance_id"])).json()["data"]
    assert info["tools"][0]["function"]["name"] == "shout"


async def test_get_info_has_the_tools_of_the_instance_where_its_create_offered_any(client):
    data = await created(client, env_type="tools", params={"volume": 3})
    info = (await post(client, "/get_info", instance_id=data["info"]["instance_id"])).json()["data"]
    assert [tool["function"]["name"] for tool in info["tools"]] == ["shout_3"]


async def test_content_parts_null_arguments_and_reasoning_are_taken(client, backend):
    data = await created(client)
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    calls = [{"function": {"name": "f", "arguments": None}}, {"name": "g", "arguments": None}]
    action = {"content": parts, "tool_calls": calls, "reasoning_content": "hm", "reasoning": "so"}
    reply = await post(client, "/step", instance_id=data["info"]["instance_id"], messages=action)
    assert reply.status_code == 200, reply.text
    message = json.loads(backend.calls[-1].body)["message"]
    assert (message["content"], message["reasoning_content"], message["reasoning"]) == (
        "one\ntwo",
        "hm",
        "so",
    )
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == ["{}", "{}"]


async def test_only_declared_parameters_reach_the_environment(client):
    params = {"volume": 3, "data_path": "/etc/passwd", "is_open_query": True}
    data = await created(client, env_type="tools", params=params)
    assert data["info"]["params"] == {"volume": 3}


@pytest.mark.parametrize("instance_id", [None, "mine"])
async def test_an_episode_with_a_counterpart_is_refused_and_leaves_no_instance(client, backend, instance_id):
    backend.awaits = Op.CREATE
    for _ in range(2):
        reply = await post(client, "/create", env_type="echo", task_id="echo-10", instance_id=instance_id)
        assert reply.status_code == 422
        assert "needs a model that plays its 'user'" in reply.json()["detail"]
        assert "Say something." not in reply.text
    assert [each.released for each in backend.episodes.values()] == [True] * len(backend.episodes)


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k"}], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("times", [1, 20_000], ids=["small", "large"])
async def test_what_a_counterpart_is_shown_in_mid_episode_does_not_reach_the_agent(
    client, backend, times, headers
):
    instance_id = (await created(client))["info"]["instance_id"]
    backend.awaits = Op.STEP
    action = {"role": "assistant", "content": "secret" * times}
    step = {"instance_id": instance_id, "messages": action}
    reply = await client.post("/step", json=step, headers=headers)
    assert (reply.status_code, "secret" in reply.text) == (422, False)
    assert backend.episodes[instance_id].released
    graded = await post(client, "/evaluate", instance_id=instance_id, params={"sparse": True})
    assert (graded.status_code, list(graded.json())) == (400, ["detail"])


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "shout", "arguments": "{}"}},
        {"name": "shout", "arguments": '{"code": "1"}'},
        {"name": "shout"},
    ],
)
async def test_tool_calls_are_taken_in_both_forms_and_answered_in_one_message(client, call):
    instance_id = (await created(client, env_type="tools"))["info"]["instance_id"]
    action = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    data = (await post(client, "/step", instance_id=instance_id, messages=action)).json()["data"]
    assert data["state"] == [{"role": "user", "content": "shout\n\nshout", "tool_calls": []}]


async def test_the_role_of_an_action_does_not_matter_and_an_empty_one_is_a_step(client):
    instance_id = (await created(client))["info"]["instance_id"]
    for action in ({}, {"role": "user", "content": "a"}, {"content": "b", "tool_calls": []}, None):
        reply = await post(client, "/step", instance_id=instance_id, messages=action)
        assert reply.status_code == 200


async def test_release_of_an_instance_that_is_not_there_is_no_error(client):
    instance_id = (await created(client))["info"]["instance_id"]
    answers = [(await post(client, "/release", instance_id=each)).json() for each in (instance_id,) * 2]
    assert answers == [{"success": True, "data": None}, {"success": False, "data": None}]
    for unknown in ("never", "not an id!"):
        reply = await post(client, "/release", instance_id=unknown)
        assert (reply.status_code, reply.json()) == (200, {"success": False, "data": None})


async def test_a_repeated_create_of_one_id_gives_the_same_instance(client, backend):
    first = await created(client, instance_id="mine")
    again = await created(client, instance_id="mine")
    assert first == again
    assert list(backend.episodes) == ["mine"]
    taken = await post(client, "/create", env_type="echo", task_id="echo-1", instance_id="mine")
    assert taken.status_code == 409, "another task does not take the running instance over"


async def test_the_id_of_an_ended_instance_is_not_given_again(client):
    await created(client, instance_id="mine")
    await post(client, "/release", instance_id="mine")
    reply = await post(client, "/create", env_type="echo", task_id="echo-10", instance_id="mine")
    assert (reply.status_code, "has ended" in reply.json()["detail"]) == (409, True)


async def test_only_sparse_reaches_the_grader(client, backend):
    instance_id = (await created(client))["info"]["instance_id"]
    for params, wanted in (({"sparse": True, "x": 1}, {"sparse": True}), ({"sparse": 1}, {}), ({}, {})):
        await post(client, "/evaluate", instance_id=instance_id, params=params)
        assert json.loads(backend.calls[-1].body).get("params") == wanted


@pytest.mark.parametrize(
    ("path", "fields", "word"),
    [
        ("/get_env_profile", {"env_type": "nope"}, "nope"),
        ("/get_env_profile", {"env_type": None}, "env_type"),
        ("/get_env_profile", {"env_type": "echo", "params": {"split": "nope"}}, "nope"),
        ("/create", {"env_type": "nope", "task_id": "t"}, "nope"),
        ("/create", {"env_type": "echo", "task_id": "nope"}, "nope"),
        ("/create", {"env_type": "echo"}, "task_id"),
        ("/create", {"env_type": None, "task_id": "t"}, "env_type"),
        ("/step", {"instance_id": "nobody"}, "nobody"),
        ("/step", {}, "instance_id"),
        ("/evaluate", {"instance_id": "nobody"}, "nobody"),
        ("/evaluate", {}, "instance_id"),
        ("/get_info", {"instance_id": "nobody"}, "nobody"),
        ("/get_info", {}, "instance_id"),
        ("/release", {}, "instance_id"),
    ],
)
async def test_what_is_missing_or_unknown_is_400_with_a_sentence(client, path, fields, word):
    reply = await post(client, path, **fields)
    assert reply.status_code == 400
    assert list(reply.json()) == ["detail"]
    assert word in reply.json()["detail"]


async def test_an_absent_env_type_means_appworld(client):
    reply = await client.post("/create", json={"task_id": "t"})
    assert (reply.status_code, "appworld" in reply.json()["detail"]) == (400, True)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "fields", [{"task_id": 5}, {"messages": []}, {"messages": "text"}, {"params": "text"}, {"instance_id": 1}]
)
async def test_wrong_types_are_422_with_a_list(client, route, fields):
    reply = await post(client, f"/{route}", **fields)
    assert reply.status_code == 422
    detail = reply.json()["detail"]
    assert detail[0]["loc"] == ["body", *fields]
    assert set(detail[0]) == {"type", "loc", "msg"}


@pytest.mark.parametrize("path", ["/step", "/evaluate", "/get_info"])
@pytest.mark.parametrize("instance_id", ["x" * 300, "a b", "/"])
async def test_a_malformed_id_is_422_and_reaches_no_supervisor(client, backend, path, instance_id):
    reply = await post(client, path, instance_id=instance_id)
    assert (reply.status_code, reply.json()["detail"][0]["loc"]) == (422, ["body", "instance_id"])
    assert backend.calls == []


@pytest.mark.parametrize(
    ("path", "required"),
    [
        ("/get_env_profile", []),
        ("/create", ["task_id"]),
        *((path, ["instance_id"]) for path in ("/step", "/evaluate", "/get_info", "/release")),
    ],
)
async def test_fields_are_documented_as_required_where_their_absence_is_400(client, path, required):
    document = (await client.get("/openapi.json")).json()
    content = document["paths"][path]["post"]["requestBody"]["content"]
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    schema = document["components"]["schemas"][name]
    assert schema.get("required", []) == required
    assert schema.get("additionalProperties", True) is True
    for field in required:
        assert (await client.post(path, json={"env_type": "echo"})).status_code == 400
        assert (await post(client, path, **{field: ""})).status_code == 400


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("content", "status"), [(b"{", 422), (b"[" * 999, 400), (b'{"params":{"a":NaN}}', 422)]
)
async def test_bodies_that_are_no_json_are_refused_in_the_protocols_form(client, route, content, status):
    reply = await client.post(f"/{route}", content=content)
    assert (reply.status_code, list(reply.json())) == (status, ["detail"])


@pytest.mark.parametrize(
    "message", [{"content": 5}, {"content": "a", "tool_calls": "x"}, {"tool_calls": [5]}]
)
async def test_an_action_that_is_no_message_is_refused(client, message):
    instance_id = (await created(client))["info"]["instance_id"]
    reply = await post(client, "/step", instance_id=instance_id, messages=message)
    assert reply.status_code == 422


@pytest.mark.parametrize("route", ROUTES)
async def test_other_methods_and_large_bodies_are_refused_in_the_protocols_form(backend, route):
    async with make_client(backend, ServerConfig(max_body_bytes=10)) as client:
        reply = await client.get(f"/{route}")
        assert (reply.status_code, list(reply.json()), reply.headers["allow"]) == (405, ["detail"], "POST")
        reply = await client.post(f"/{route}", json=body())
        assert (reply.status_code, list(reply.json())) == (413, ["detail"])


async def test_a_step_after_the_end_is_refused_and_stays_refused(client):
    instance_id = (await created(client, task_id="echo-1"))["info"]["instance_id"]
    await post(client, "/step", instance_id=instance_id)
    for _ in range(2):
        reply = await post(client, "/step", instance_id=instance_id)
        assert (reply.status_code, list(reply.json())) == (409, ["detail"])


async def test_evaluating_early_does_not_disturb_the_episode(client):
    instance_id = (await created(client))["info"]["instance_id"]
    for index in range(10):
        await post(client, "/evaluate", instance_id=instance_id)
        reply = await post(client, "/step", instance_id=instance_id)
        assert reply.json()["data"]["is_terminated"] is (index == 9)


async def test_failures_keep_their_status_and_lose_their_inside(client, backend):
    instance_id = (await created(client))["info"]["instance_id"]
    for error, status in (
        (OverCapacityError("full", 1.0), 429),
        (ServiceError(ErrorCode.INSTANCE_LOST), 410),
        (ServiceError(ErrorCode.STEP_TIMEOUT), 504),
        (RuntimeError("secret"), 500),
    ):
        backend.failures[Op.STEP] = error
        reply = await post(client, "/step", instance_id=instance_id)
        assert (reply.status_code, list(reply.json())) == (status, ["detail"])
        assert ("retry-after" in reply.headers) is (status == 429)
        assert "secret" not in reply.text


async def test_release_of_an_instance_that_was_lost_is_no_error(client, backend):
    backend.failures[Op.RELEASE] = ServiceError(ErrorCode.INSTANCE_LOST)
    assert (await post(client, "/release", instance_id="i")).json() == {"success": False, "data": None}
    backend.failures[Op.RELEASE] = ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE)
    assert (await post(client, "/release", instance_id="i")).status_code == 503


async def test_long_ids_that_begin_alike_have_keys_of_their_own(client, backend):
    for last in "12":
        await created(client, instance_id="a" * 127 + last)
    keys = [str(call.meta["key"]) for call in backend.calls if call.op is Op.CREATE]
    assert len(set(keys)) == 2
    assert all(len(key) <= 128 for key in keys)
