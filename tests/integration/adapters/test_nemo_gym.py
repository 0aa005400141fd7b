"""The NeMo Gym server seeds, calls tools, verifies and releases; sessions are apart."""

import asyncio

import httpx
import pytest
from aiohttp.test_utils import TestServer

from sandbox_client.adapters.nemo_gym import NemoGymServer, last_text, task_rows
from sandbox_client.adapters.refusals import UnplayableError
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op

DONE = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Done."}]}]}

STATISTICS = ("mean", "max", "min", "median", "std")


@pytest.fixture
async def server(client):
    async with TestServer(NemoGymServer(client).application()) as started:
        yield started


@pytest.fixture
def rollout(server):
    """A client with a cookie jar of its own, as one rollout has it."""
    return lambda: httpx.AsyncClient(base_url=str(server.make_url("/echo/")))


async def test_a_rollout_is_seeded_plays_and_is_verified(rollout, backend):
    row = {"task_id": "echo-10", "responses_create_params": {"input": []}, "own": 1}
    async with rollout() as http:
        assert (await http.post("seed_session", json=row)).is_success
        assert (await http.post("shout", json={"louder": True})).text == "shout"
        verified = (await http.post("verify", json=row | {"response": DONE})).json()
    assert verified["own"] == 1
    assert 0 <= verified["reward"] < 1
    assert [episode.steps for episode in backend.episodes.values()] == [2]
    assert all(episode.released for episode in backend.episodes.values())


async def test_a_text_answer_is_the_last_step_of_an_environment_without_tools(rollout):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-1"})
        verified = (await http.post("verify", json={"task_id": "echo-1", "response": DONE})).json()
    assert verified["reward"] == 1.0


async def test_sessions_are_apart(rollout, backend):
    async with rollout() as one, rollout() as two:
        await one.post("seed_session", json={"task_id": "echo-10"})
        await two.post("seed_session", json={"task_id": "echo-10"})
        await one.post("shout", json={})
    assert sorted(episode.steps for episode in backend.episodes.values()) == [0, 1]


async def test_a_tool_after_the_end_is_refused(rollout):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-1"})
        await http.post("shout", json={})
        assert (await http.post("shout", json={})).status_code == 409


@pytest.mark.parametrize(
    ("route", "body", "status"),
    [
        ("verify", {}, 404),
        ("shout", {}, 404),
        ("seed_session", {}, 422),
        ("seed_session", {"task_id": "nope"}, 404),
        ("seed_session", [], 422),
    ],
)
async def test_a_wrong_request_says_so(rollout, route, body, status):
    async with rollout() as http:
        assert (await http.post(route, json=body)).status_code == status


async def test_a_body_that_is_not_json_is_refused(rollout):
    async with rollout() as http:
        assert (await http.post("seed_session", content=b"{")).status_code == 400


async def test_a_failure_of_the_service_is_no_reward_and_the_session_stays(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-1"})
        backend.failures[Op.EVALUATE] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        assert (await http.post("verify", json={})).status_code == 502
        del backend.failures[Op.EVALUATE]
        assert (await http.post("verify", json={"response": DONE})).json()["reward"] == 1.0


async def test_an_episode_whose_counterpart_is_a_model_is_refused_and_released(rollout, backend):
    backend.awaits = Op.CREATE
    async with rollout() as http:
        answer = await http.post("seed_session", json={"task_id": "echo-10"})
    assert not answer.is_success
    assert "a model that plays its 'user'" in answer.text
    assert [episode.released for episode in backend.episodes.values()] == [True]


async def test_an_episode_that_waits_for_its_counterpart_in_mid_play_has_no_reward(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-10"})
        backend.awaits = Op.STEP
        assert not (await http.post("shout", json={})).is_success
        backend.awaits = None
        assert not (await http.post("shout", json={})).is_success
        row = {"task_id": "echo-10", "response": DONE}
        assert not (await http.post("verify", json=row)).is_success
    assert [episode.steps for episode in backend.episodes.values()] == [1]


@pytest.mark.parametrize(("texts", "status"), [("dialogue", 422), ("last", 200)])
async def test_a_dialogue_is_refused_and_released_as_texts_end_an_episode(rollout, backend, texts, status):
    backend.opening_info = {"texts": texts}
    async with rollout() as http:
        answer = await http.post("seed_session", json={"task_id": "echo-10"})
    assert answer.status_code == status
    assert [episode.released for episode in backend.episodes.values()] == [status != 200]
    assert status == 200 or "the task is a dialogue" in answer.text


async def test_no_row_is_made_of_a_dialogue(client, backend):
    backend.opening_info = {"texts": "dialogue"}
    with pytest.raises(UnplayableError, match=r"echo-1: the task is a dialogue.*choose a split"):
        [row async for row in task_rows(client, "echo", ["echo-1"])]


async def test_a_second_session_has_no_reward_as_the_first_would_be_in_view(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-10"})
        backend.step_info = {"new_session": True}
        assert (await http.post("shout", json={})).status_code == 422
        backend.step_info = {}
        assert (await http.post("shout", json={})).status_code == 422
        assert (await http.post("verify", json={"task_id": "echo-10", "response": DONE})).status_code == 422
    assert [episode.steps for episode in backend.episodes.values()] == [1]


async def test_the_shutdown_releases_what_is_left(client, backend):
    async with TestServer(NemoGymServer(client).application()) as server:
        url = str(server.make_url("/echo/seed_session"))
        async with httpx.AsyncClient() as http:
            assert (await http.post(url, json={"task_id": "echo-10"})).is_success
    assert all(episode.released for episode in backend.episodes.values())


async def test_a_row_has_the_opening_messages_of_its_task(client):
    (row,) = [row async for row in task_rows(client, "echo", ["echo-1"])]
    assert row["task_id"] == "echo-1"
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "Say something."}]


async def test_the_parameters_of_rows_are_those_of_their_episodes(client, rollout, backend):
    (row,) = [row async for row in task_rows(client, "tools", ["echo-1"], params={"volume": 9})]
    assert row["params"] == {"volume": 9}
    assert [tool["name"] for tool in row["responses_create_params"]["tools"]] == ["shout_9"]


@pytest.mark.parametrize(
    "response", [None, {}, {"output": []}, {"output": [{"type": "function_call"}]}, {"output": [3]}]
)
def test_a_response_that_ends_without_a_text_adds_no_step(response):
    assert last_text(response) == ""


async def test_the_cookies_of_the_newest_answer_are_enough(server):
    """NeMo Gym's agents keep no others."""
    url, jar = str(server.make_url("/echo/")), {}
    for route, body in (
        ("seed_session", {"task_id": "echo-10"}),
        ("shout", {}),
        ("shout", {}),
        ("verify", {}),
    ):
        async with httpx.AsyncClient(base_url=url, cookies=jar) as http:
            answer = await http.post(route, json=body)
        assert answer.is_success, answer.text
        jar = dict(answer.cookies)


async def test_a_verdict_is_given_again_when_the_answer_was_lost(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-10"})
        answers = [(await http.post("verify", json={"response": DONE})).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert [episode.steps for episode in backend.episodes.values()] == [1]


async def test_an_episode_in_which_a_tool_met_a_failure_of_the_service_has_no_reward(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-10"})
        backend.failures[Op.STEP] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        failed = await http.post("shout", json={})
        del backend.failures[Op.STEP]
        assert failed.status_code == 502
        assert "failure class sandbox" in failed.text
        assert (await http.post("verify", json={})).status_code == 502


async def test_tool_calls_at_once_are_taken_one_after_the_other(rollout, backend):
    async with rollout() as http:
        await http.post("seed_session", json={"task_id": "echo-10"})
        answers = await asyncio.gather(*(http.post("shout", json={}) for _ in range(4)))
    assert all(answer.is_success for answer in answers)
    assert [episode.steps for episode in backend.episodes.values()] == [4]


async def test_a_web_page_is_refused(rollout):
    async with rollout() as http:
        answer = await http.post(
            "seed_session", json={"task_id": "echo-1"}, headers={"Origin": "http://a.example"}
        )
    assert answer.status_code == 403


async def test_the_metrics_of_a_collection_are_those_that_nemo_gym_computes(rollout):
    answers = [
        {"_ng_task_index": task, "_ng_rollout_index": index, "reward": reward, "seed": 0, "details": {}}
        for task, rewards in enumerate([(0.0, 1.0), (1.0, 1.0)])
        for index, reward in enumerate(rewards)
    ]
    async with rollout() as http:
        answered = await http.post("aggregate_metrics", json={"verify_responses": answers})
    found = answered.json()
    assert found["key_metrics"] == {"mean/reward": 0.75}
    # What compute_aggregate_metrics of NeMo Gym 0.4.0 answers, for all rollouts and for the first task.
    statistics = {"mean/reward": 0.75, "max/reward": 1.0, "min/reward": 0.0, "median/reward": 1.0}
    assert statistics.items() <= found["agent_metrics"].items()
    assert found["agent_metrics"]["std/reward"] == pytest.approx(0.5)
    first, second = found["group_level_metrics"]
    assert (first["_ng_task_index"], first["num_rollouts"], first["mean/reward"]) == (0, 2, 0.5)
    assert first["std/reward"] == pytest.approx(0.7071067811865476)
    assert (second["_ng_task_index"], second["mean/reward"], second["std/reward"]) == (1, 1.0, 0.0)


async def test_metrics_of_a_collection_that_is_larger_than_a_row_may_be_are_answered(rollout):
    answers = [{"reward": 1.0, "response": {"id": "x" * 11 * 2**20}}] * 3
    async with rollout() as http:
        answered = await http.post("aggregate_metrics", json={"verify_responses": answers})
        assert (await http.post("verify", json=answers)).status_code == 413
    assert answered.json()["key_metrics"] == {"mean/reward": 1.0}


@pytest.mark.parametrize("number", [10**400, 1.7e308], ids=["integer", "float"])
async def test_numbers_too_large_to_sum_up_have_no_statistics(rollout, number):
    answers = [{"reward": 1.0, "own": number}] * 2
    async with rollout() as http:
        answered = await http.post("aggregate_metrics", json={"verify_responses": answers})
    assert set(answered.json()["agent_metrics"]) == {f"{each}/reward" for each in STATISTICS}


@pytest.mark.parametrize("body", [{}, {"verify_responses": [3]}])
async def test_metrics_of_no_rollouts_are_refused(rollout, body):
    async with rollout() as http:
        assert (await http.post("aggregate_metrics", json=body)).status_code == 422


async def test_one_environment_can_be_at_the_root(client):
    root = NemoGymServer(client, "echo").application()
    async with TestServer(root) as server, httpx.AsyncClient(base_url=str(server.make_url("/"))) as http:
        await http.post("seed_session", json={"task_id": "echo-1"})
        assert (await http.post("verify", json={"response": DONE})).json()["reward"] == 1.0


def test_half_a_surrogate_pair_is_replaced():
    assert last_text({"output": [{"type": "message", "content": "a\ud800"}]}) == "a?"
