"""AgentGym's protocol, request by request as its environment clients send it, over a fake text game."""

from __future__ import annotations

import httpx
import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import OverCapacityError, ServiceError
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.agentgym_clients import CLIENTS, AlfWorld, BabyAI, SciWorld, TextCraft, WebShop
from tests.fakes.games import ACTIONS, GameBackend, game_registry
from tests.harness.gateway import digest

NAMES = ("textcraft", "babyai", "scienceworld", "alfworld", "webshop")
each_client = pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
MOVE = {"webshop": "Action: click[Buy Now]"}


@pytest.fixture
def backend() -> GameBackend:
    return GameBackend(game_registry(*NAMES))


def replica(backend: GameBackend, config: ServerConfig | None = None, **options) -> httpx.AsyncClient:
    app = build_app(config or ServerConfig(), backend.registry, backend)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", **options)


@pytest.fixture
async def http(backend):
    async with replica(backend) as client:
        yield client


async def made(kind, http):
    client = kind(http)
    await client.make()
    return client


@each_client
async def test_a_client_plays_one_task_after_another_in_its_place(kind, http, backend):
    client = await made(kind, http)
    assert type(client.env_id) is int
    for index, length in ((0, 1), (2, 3)):
        await client.reset(index)
        assert f"Leave the corridor of {length}" in await client.observe()
        done, moves, reward = False, 0, 0.0
        while not done:
            state, reward, done = await client.step(MOVE.get(kind.name, "Thought: on\n\nAction: go north"))
            moves += 1
        assert (moves, state.splitlines()[0]) == (length, "You are out.")
        assert reward == (100.0 if kind is SciWorld else 1.0)
    assert len(backend.live()) == 1
    assert await client.close() is True
    assert backend.live() == []
    assert await client.close() is False


@each_client
async def test_any_replica_goes_on_with_a_place_that_another_made(kind, http, backend):
    client = await made(kind, http)
    await client.reset(2)
    move = MOVE.get(kind.name, "Action: go north")
    async with replica(backend) as other:
        client.http = other
        assert "went north 1 times" in (await client.step(move))[0]
        await client.reset(2)
        client.http = http
        assert "went north 1 times" in (await client.step(move))[0], "not the instance remembered from before"
        await client.reset(2)
        client.http = other
        assert await client.close() is True
    assert backend.live() == []


async def test_a_place_made_here_and_first_reset_elsewhere_leaves_nothing_behind(http, backend):
    client = await made(BabyAI, http)
    async with replica(backend) as other:
        client.http = other
        await client.reset(0)
    client.http = http
    await client.reset(1)
    assert len(backend.live()) == 1


async def test_playing_in_one_replica_never_asks_the_whole_fleet(http, backend):
    client = await made(BabyAI, http)
    for index in (0, 1, 2):
        await client.reset(index)
        await client.step("Action: go north")
    await client.close()
    assert backend.asked_everyone() == 0


async def test_the_number_of_a_task_is_its_place_in_all_and_the_seed(http, backend):
    client = await made(AlfWorld, http)
    answer = await client.reset(2)
    assert answer["task_type"] == "long/corridor-3"
    (name,) = backend.live()
    assert backend.seeds[name] == 2
    assert name.startswith(f"agentgym-alfworld-{client.env_id}-")


async def test_textcraft_begins_at_create_and_wraps_around(http, backend):
    client = await made(TextCraft, http)
    assert "You see a corridor" in client.info["observation"]
    assert "corridor of 2" in (await client.reset(4))["observation"]
    detail = await client.get("detail")
    assert detail == {
        "observation": await client.get("observation"),
        "reward": 0,
        "done": False,
        "deleted": False,
    }


async def test_babyai_names_the_actions_and_answers_before_the_first_reset(http):
    client = await made(BabyAI, http)
    assert (await client.get("observation"))["observation"] == "Environment not initialized"
    opening = await client.reset(0)
    assert opening["observation"].endswith('\nAvailable actions: ["go north", "look"]')
    assert (opening["deleted"], opening["done"], opening["score"]) == (False, False, 0)


async def test_sciworld_tells_its_task_apart_and_counts_in_percent(http):
    client = await made(SciWorld, http)
    opening = await client.reset(2)
    assert opening["task_description"] == "Leave the corridor of 3."
    assert "Leave the corridor" not in opening["observation"]
    assert (opening["task_name"], opening["var_num"]) == ("long", 3)
    state, score, done = await client.step("go north")
    assert (score, done) == (pytest.approx(33.333333), False)
    assert await client.get("action_hint") == {"possible_actions": [*ACTIONS], "possible_objects": []}
    assert await client.get("goals") == {"goals": "north"}
    assert await client.get("task_description") == {"task_description": "Leave the corridor of 3."}
    told = await client.get("state")
    assert (told["observation"], told["current_moves"]) == (state, 1)
    detail = await client.get("detail")
    assert detail["score"] == pytest.approx(33.333333)
    assert told["environment_info"] == detail


async def test_alfworld_offers_actions_and_knows_its_game(http):
    client = await made(AlfWorld, http)
    assert (await client.reset(1))["available_actions"] == [*ACTIONS]
    await client.step("look")
    assert await client.get("available_actions") == [*ACTIONS]
    assert await client.get("observation") == "Nothing happens."
    detail = await client.get("detail")
    assert (detail["game"], detail["world_type"], detail["done"]) == (1, "Text", False)
    wrong = await client.post("reset", game=0, world_type="Dream")
    assert wrong["error"] == 'world_type must be one of "Text", "Embody" and "Hybrid"'


async def test_webshop_tells_pages(http, backend):
    client = await made(WebShop, http)
    assert (await http.get("/agentgym/webshop/list_envs")).json() == []
    page, nothing = await client.reset(1)
    assert nothing is None
    assert await client.get("instruction_text") == "Leave the corridor of 2."
    assert await client.get("available_actions") == {
        "has_search_bar": True,
        "clickables": ["search", "Buy Now", "< Prev"],
    }
    assert await client.get("state") == {
        "url": "",
        "html": page,
        "instruction_text": "Leave the corridor of 2.",
    }
    assert (await http.get("/agentgym/webshop/list_envs")).json() == [client.env_id]
    answer = await client.post("step", action="click[Buy Now]")
    assert answer == {"state": "You went north 1 times.", "reward": 0.0, "done": False, "info": None}
    reply = await http.post("/agentgym/webshop/reset", json={"env_idx": client.env_id, "session_id": None})
    assert reply.status_code == 200


@each_client
async def test_a_finished_episode_takes_no_step(kind, http):
    client = await made(kind, http)
    await client.reset(0)
    move = MOVE.get(kind.name, "Action: go north")
    await client.step(move)
    body = {client.id_field: client.env_id, "action": "look"}
    reply = await http.post(f"{client.base}/step", json=body)
    assert reply.status_code == (409 if kind is WebShop else 200)
    assert reply.json() == {
        "error": f"The task with environment {client.env_id} has finished.",
        "code": "instance_finished",
        "failure_class": "request",
    }


async def test_errors_are_sentences_with_status_200(http, backend):
    client = await made(BabyAI, http)
    assert (await client.post("step", action="look"))["error"].endswith("has not been reset.")
    assert (await client.post("reset", data_idx=3))["error"].startswith("unknown task 3: babyai has 3")
    await client.reset(0)
    await client.close()
    assert (await client.post("step", action="look"))["error"].endswith("has been deleted.")
    client.env_id += 1
    assert (await client.post("step", action="look"))["error"] == f"The id {client.env_id} is not valid."
    assert await client.close() is False
    backend.failures[Op.CREATE] = RuntimeError("secret")
    client.env_id -= 1
    answer = await client.post("reset", data_idx=0)
    assert answer == {"error": "The service failed", "code": "internal", "failure_class": "sandbox"}


async def test_a_lost_or_full_sandbox_is_an_error_and_never_a_reward(http, backend):
    client = await made(BabyAI, http)
    backend.failures[Op.CREATE] = OverCapacityError("no room", 2.0)
    assert (await client.post("reset", data_idx=0))["failure_class"] == "capacity"
    del backend.failures[Op.CREATE]
    await client.reset(0)
    backend.failures[Op.STEP] = ServiceError(ErrorCode.SANDBOX_FAILED)
    answer = await client.post("step", action="look")
    assert (answer["failure_class"], "reward" in answer) == ("sandbox", False)


async def test_webshops_client_is_asked_to_retry_when_there_is_no_room(http, backend):
    client = await made(WebShop, http)
    backend.failures[Op.CREATE] = OverCapacityError("no room", 2.0)
    reply = await http.post("/agentgym/webshop/reset", json={"env_idx": client.env_id, "session_id": 0})
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize("code", [ErrorCode.OUTCOME_UNKNOWN, ErrorCode.IMAGE_MISSING])
async def test_webshops_client_is_not_asked_to_repeat_what_may_have_been_executed(http, backend, code):
    client = await made(WebShop, http)
    await client.reset(0)
    backend.failures[Op.STEP] = ServiceError(code)
    reply = await http.post("/agentgym/webshop/step", json={"env_idx": client.env_id, "action": "search[x]"})
    assert (reply.status_code, reply.json()["code"]) == (500, code)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("babyai/step", {"id": "one", "action": "look"}, "id"),
        ("babyai/step", {"id": False, "action": "look"}, "id"),
        ("babyai/reset", {"id": 1}, "data_idx"),
        ("babyai/reset", {"id": 1, "data_idx": True}, "data_idx"),
        ("webshop/step", {"env_idx": 1}, "action"),
        ("alfworld/reset", {"id": 1, "game": 0}, "world_type"),
    ],
)
async def test_a_body_of_another_shape_is_422(http, path, body, field):
    reply = await http.post(f"/agentgym/{path}", json=body)
    assert (reply.status_code, reply.json()["detail"][0]["loc"]) == (422, ["body", field])


async def test_a_question_without_an_id_is_422(http):
    assert (await http.get("/agentgym/babyai/observation")).status_code == 422
    assert (await http.get("/agentgym/webshop/state?id=1")).status_code == 422


async def test_each_server_greets_and_other_methods_are_refused(http):
    assert (await http.get("/agentgym/sciworld/")).json() == "This is environment ScienceWorld."
    assert (await http.get("/agentgym/webshop")).json() == "ok"
    assert (await http.get("/agentgym/babyai/step")).status_code == 405


async def test_an_environment_that_is_not_served_says_so():
    backend = GameBackend(game_registry("babyai"))
    async with replica(backend) as http:
        reply = await http.post("/agentgym/textcraft/create", json={})
        assert (reply.status_code, reply.json()["code"]) == (200, "unknown_environment")
        assert (await http.post("/agentgym/webshop/create")).status_code == 404


async def test_places_belong_to_tenants_and_keys_come_in_the_url():
    backend = GameBackend(game_registry("babyai"))
    config = ServerConfig(api_keys={digest("one"): "a", digest("two"): "b"})
    async with (
        replica(backend, config, auth=("key", "one")) as mine,
        replica(backend, config, auth=("key", "two")) as theirs,
        replica(backend, config) as nobody,
    ):
        client = await made(BabyAI, mine)
        await client.reset(0)
        client.http = theirs
        assert (await client.post("step", action="look"))["error"] == f"The id {client.env_id} is not valid."
        assert await client.close() is False
        assert (await nobody.post("/agentgym/babyai/create")).status_code == 401
    assert len(backend.live()) == 1
