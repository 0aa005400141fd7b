"""The owner of agents opens, reads, rewards and ends their sessions over HTTP."""

import asyncio
import json

import pytest

from tests.harness.stand_alone_gateway import CONTEXT, owner
from tests.harness.waiting import until
from trainer.errors import EngineError
from trainer.model_gateway.stand_alone.settings import Retention

ASK = {"role": "user", "content": "What is 2 + 3?"}
MORE = {"role": "user", "content": "Are you sure?"}


async def conversation(at, session):
    """Two calls, the second behind the first; their answers."""
    first = (await at.call(session, ASK)).json()
    said = first["choices"][0]["message"]
    second = (await at.call(session, ASK, said, MORE)).json()
    return first, second


async def ended(at, session):
    """The state of a session when it is no longer open."""
    async with asyncio.timeout(20):
        while (state := (await at.read(session))["state"]) == "open":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return state


async def test_a_session_is_opened_called_rewarded_and_ended_with_a_recording_to_train_on():
    async with owner("5", "Yes, 5.") as at:
        session = await at.open(metadata={"task": "sum"}, seed=7)
        assert session["base_url"] == f"{at.url}/v1"
        assert session["anthropic_base_url"] == at.url
        first, _ = await conversation(at, session)
        await at.http.post(
            f"/sessions/{session['id']}/reward", json={"reward": 0.5, "call_id": first["id"][-22:]}
        )
        await at.http.post(f"/sessions/{session['id']}/reward", json={"reward": 1, "terms": {"speed": 0.25}})
        recording = await at.delete(session)

    assert (recording["id"], recording["state"], recording["seed"]) == (session["id"], "sealed", 7)
    assert recording["metadata"] == {"task": "sum"}
    (sequence,) = recording["sequences"]
    turns = at.policy.sampled
    trained = [
        token for token, kept in zip(sequence["token_ids"], sequence["loss_mask"], strict=True) if kept
    ]
    assert trained == [token for turn in turns for token in turn.token_ids]
    logprobs = [at for at, kept in zip(sequence["logprobs"], sequence["loss_mask"], strict=True) if kept]
    assert logprobs == [at for turn in turns for at in turn.logprobs]
    assert sequence["break"] == "first"
    assert [turn["call"] for turn in sequence["turns"]] == [0, 1]
    assert [turn["versions"] for turn in sequence["turns"]] == [
        [{"start": turn["start"], "end": turn["end"], "version": 0}] for turn in sequence["turns"]
    ]
    assert recording["reward"] == 1.5
    assert [call["prompt"] for call in recording["calls"]] == ["rendered", "spliced"]
    assert [call["break"] for call in recording["calls"]] == ["first", "extends"]
    assert [message["role"] for message in recording["messages"]] == ["user", "assistant"] * 2


async def test_a_session_can_be_read_while_it_is_open_and_after_it_ended():
    async with owner() as at:
        session = await at.open()
        await at.call(session)
        assert (await at.read(session))["state"] == "open"
        assert len((await at.read(session, "/sequences"))["sequences"]) == 1
        ended = await at.delete(session)
        assert (await at.read(session))["state"] == "sealed"
        assert (await at.read(session, "/sequences"))["sequences"] == ended["sequences"]
        assert await at.delete(session) == ended
        (listed,) = (await at.http.get("/sessions")).json()["sessions"]
        assert (listed["id"], listed["state"], listed["answered_calls"]) == (session["id"], "sealed", 1)


async def test_an_ended_session_takes_no_calls_and_no_rewards():
    async with owner() as at:
        session = await at.open()
        await at.call(session)
        await at.delete(session)
        late = await at.call(session)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "session_sealed")
        reward = await at.http.post(f"/sessions/{session['id']}/reward", json={"reward": 1})
        assert (reward.status_code, reward.json()["error"]["code"]) == (409, "session_sealed")


async def test_the_end_of_a_session_cuts_off_a_call_in_progress():
    async with owner() as at:
        at.policy.gate = asyncio.Event()
        session = await at.open()
        late = asyncio.create_task(at.call(session))
        await until(lambda: at.policy.asked)
        recording = await at.delete(session)
        assert recording["sequences"] == []
        assert (await late).status_code == 409


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sessions"),
        ("GET", "/sessions"),
        ("GET", "/sessions/ID"),
        ("GET", "/sessions/ID/sequences"),
        ("POST", "/sessions/ID/reward"),
        ("DELETE", "/sessions/ID"),
    ],
)
async def test_the_key_of_a_session_opens_no_control_route(method, path):
    async with owner() as at:
        session = await at.open()
        path = path.replace("ID", session["id"])
        for given in (f"Bearer {session['api_key']}", "Bearer wrong", "admin-secret", ""):
            answer = await at.http.request(method, path, headers={"Authorization": given})
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_admin_key")
        assert (await at.call(session)).status_code == 200
        assert "api_key" not in json.dumps(await at.read(session))


async def test_the_admin_key_is_no_key_of_a_session():
    async with owner() as at:
        session = await at.open()
        assert (await at.call(session, key="admin-secret")).status_code == 401


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"limit": {}}, "limit"),
        ({"limits": {"turns": 0}}, "limits.turns"),
        ({"limits": {"context_tokens": CONTEXT + 1}}, "limits.context_tokens"),
        ({"prompts": "weave"}, "prompts"),
        ({"seed": -1}, "seed"),
        ([], ""),
    ],
)
async def test_a_wrong_request_is_refused_with_the_field_at_fault(request_, field):
    async with owner() as at:
        answer = await at.http.post("/sessions", json=request_)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(field or "body")
        assert (await at.http.get("/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("reward", [{}, {"reward": "much"}, {"reward": 1, "call": "x"}])
async def test_a_wrong_reward_is_refused(reward):
    async with owner() as at:
        session = await at.open()
        await at.call(session)
        answer = await at.http.post(f"/sessions/{session['id']}/reward", json=reward)
        assert answer.status_code == 400


async def test_a_reward_needs_an_answered_call_and_a_session_that_exists():
    async with owner() as at:
        session = await at.open()
        answer = await at.http.post(f"/sessions/{session['id']}/reward", json={"reward": 1})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_call")
        for answer in (
            await at.http.post("/sessions/none/reward", json={"reward": 1}),
            await at.http.get("/sessions/none"),
            await at.http.get("/sessions/none/sequences"),
            await at.http.delete("/sessions/none"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_not_found")


async def test_a_reward_for_an_id_that_no_call_has_is_refused_and_given_to_none():
    async with owner() as at:
        session = await at.open()
        await at.call(session)
        for call_id in ("chatcmpl-0", session["id"], f"{session['id']}000001"):
            answer = await at.http.post(
                f"/sessions/{session['id']}/reward", json={"reward": 1, "call_id": call_id}
            )
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "call_not_found")
            assert repr(call_id) in answer.json()["error"]["message"]
        assert (await at.delete(session))["reward"] == 0


async def test_a_reward_may_name_a_call_by_any_id_in_its_answer():
    async with owner('<tool_call>{"name": "look", "arguments": {}}</tool_call>') as at:
        session = await at.open()
        body = {"model": "m", "input": "Look.", "tools": [{"type": "function", "name": "look"}]}
        headers = {"Authorization": f"Bearer {session['api_key']}"}
        answer = (await at.http.post("/v1/responses", json=body, headers=headers)).json()
        (item,) = answer["output"]
        for call_id in (answer["id"], item["id"], item["call_id"]):
            given = await at.http.post(
                f"/sessions/{session['id']}/reward", json={"reward": 1, "call_id": call_id}
            )
            assert given.status_code == 200, given.text
        assert (await at.delete(session))["reward"] == 3


async def test_limits_and_prompts_are_those_that_were_asked_for():
    async with owner("5", "Yes.") as at:
        session = await at.open(limits={"turns": 1}, prompts="render")
        await conversation(at, session)
        recording = await at.delete(session)
        assert (recording["prompts"], recording["limit"]) == ("render", "horizon")
        assert recording["answered_calls"] == 1


async def test_a_failure_of_the_engine_is_on_the_recording():
    async with owner(EngineError("out of memory")) as at:
        session = await at.open()
        assert (await at.call(session)).status_code == 503
        recording = await at.delete(session)
        assert recording["failure"] == "out of memory"
        assert (recording["answered_calls"], recording["failed_calls"]) == (0, 1)
        assert "out of memory" in recording["calls"][0]["error"]


async def test_sessions_that_end_are_exported_those_of_the_gateways_end_included(tmp_path):
    file = tmp_path / "new" / "sessions.jsonl"
    async with owner(export=file) as at:
        sessions = [await at.open(metadata={"number": number}) for number in range(3)]
        for session in sessions:
            await at.call(session)
        ended = [await at.delete(session) for session in sessions[:2]]
        assert [json.loads(line) for line in file.read_text().splitlines()] == ended
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["state"] for line in lines] == ["sealed", "sealed", "stopped"]
    assert [line["metadata"]["number"] for line in lines] == [0, 1, 2]
    assert all(len(line["sequences"]) == 1 for line in lines)


async def test_an_idle_session_expires_and_one_with_a_call_in_progress_does_not():
    async with owner(retention=Retention(idle_s=1)) as at:
        at.policy.gate = asyncio.Event()
        busy = await at.open()
        call = asyncio.create_task(at.call(busy))
        await until(lambda: at.policy.asked)
        idle = await at.open()
        assert await ended(at, idle) == "expired"
        assert (await at.read(busy))["state"] == "open"
        at.policy.gate.set()
        assert (await call).status_code == 200
        assert await ended(at, busy) == "expired"
        assert (await at.read(busy))["answered_calls"] == 1


async def test_open_and_ended_sessions_are_bounded():
    async with owner(retention=Retention(open_sessions=2, ended_sessions=1)) as at:
        sessions = [await at.open() for _ in range(2)]
        refused = await at.http.post("/sessions", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_sessions")
        for session in sessions:
            await at.delete(session)
        assert [
            each if isinstance(each, int) else each["state"] for each in [await at.read(s) for s in sessions]
        ] == [
            404,
            "sealed",
        ]
        await at.open()


async def test_the_public_url_is_what_agents_are_given():
    async with owner(public_url="https://models.example/") as at:
        session = await at.open()
        assert session["base_url"] == "https://models.example/v1"
        assert session["keyed_base_url"] == f"https://models.example/s/{session['api_key']}/v1"
