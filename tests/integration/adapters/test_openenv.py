"""The OpenEnv server keeps its protocol and releases what it created."""

import asyncio
import json
import struct
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import WSCloseCode, WSMsgType
from aiohttp.test_utils import TestClient, TestServer

from sandbox_client import AsyncSandboxClient
from sandbox_client.adapters.openenv import OpenEnvServer
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op
from tests.harness.held_steps import HeldSteps


@pytest.fixture
async def http(client):
    async with TestClient(TestServer(OpenEnvServer(client).application())) as opened:
        yield opened


async def all_released(backend, timeout_s=10.0):
    """Wait until the server has seen that its clients have left."""
    async with asyncio.timeout(timeout_s):
        while not all(episode.released for episode in backend.episodes.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def session(http, environment="echo"):
    async with http.ws_connect(f"/{environment}/ws") as socket:

        async def ask(kind, **data):
            await socket.send_json({"type": kind, "data": data})
            return await socket.receive_json()

        ask.socket = socket
        yield ask


async def test_an_episode_is_played_to_its_end_and_rewarded_by_the_evaluation(http, backend):
    async with session(http) as ask:
        opened = await ask("reset", task_id="echo-1", seed=3, unknown="ignored")
        assert opened["type"] == "observation"
        assert opened["data"]["observation"]["text"] == "Say something."
        assert (opened["data"]["reward"], opened["data"]["done"]) == (None, False)
        stepped = await ask("step", content="hello")
        assert (stepped["data"]["reward"], stepped["data"]["done"]) == (1.0, True)
        assert stepped["data"]["metadata"]["evaluation"]["success"]
        assert (await ask("state"))["data"]["step_count"] == 1
    await all_released(backend)


async def test_a_new_session_and_new_tools_are_in_the_observation(http, backend):
    tool = {"type": "function", "function": {"name": "sing", "description": "", "parameters": {}}}
    async with session(http) as ask:
        await ask("reset", task_id="echo-10")
        usual = (await ask("step", content="hello"))["data"]["observation"]
        assert not {"new_session", "tools"} & usual.keys()
        backend.step_info = {"new_session": True, "tools": [tool]}
        changed = (await ask("step", content="hello"))["data"]["observation"]
    assert changed["new_session"] is True
    assert [each["function"]["name"] for each in changed["tools"]] == ["sing"]


async def test_a_task_is_chosen_by_split_and_index(http):
    async with session(http) as ask:
        opened = await ask("reset", split="train", index=1)
        assert opened["data"]["metadata"]["task_id"] == "echo-10"
        refused = await ask("reset", split="train", index=9)
        assert "no task 9" in refused["data"]["message"]


async def test_a_second_reset_releases_the_first_episode(http, backend):
    async with session(http) as ask:
        await ask("reset", task_id="echo-10")
        await ask("reset", task_id="echo-10")
        assert [episode.released for episode in backend.episodes.values()] == [True, False]


async def test_a_client_that_disappears_leaves_no_instance(http, backend):
    async with session(http) as ask:
        await ask("reset", task_id="echo-10")
        await ask.socket.close()
    await all_released(backend)


async def test_close_ends_the_session(http):
    async with session(http) as ask:
        await ask.socket.send_json({"type": "close"})
        assert (await ask.socket.receive()).type.name in ("CLOSE", "CLOSED")


@pytest.fixture
async def held(backend):
    """The socket of a session whose step is not answered, and the transport that holds the answer."""
    transport = HeldSteps(backend)
    async with (
        AsyncSandboxClient("http://localhost", transport=transport) as client,
        TestClient(TestServer(OpenEnvServer(client).application())) as http,
        http.ws_connect("/echo/ws", autoping=False) as socket,
    ):
        await socket.send_json({"type": "reset", "data": {"task_id": "echo-10"}})
        await socket.receive_json()
        await socket.send_json({"type": "step", "data": {"content": "hello"}})
        await transport.executed.wait()
        yield socket, transport
        transport.answered.set()


async def test_pings_are_answered_while_a_step_runs(held):
    socket, transport = held
    await socket.ping()
    assert (await socket.receive()).type is WSMsgType.PONG
    transport.answered.set()
    assert (await socket.receive_json())["type"] == "observation"


async def test_a_client_that_leaves_while_a_step_runs_leaves_no_instance(held, backend):
    socket, transport = held
    await socket.close()
    assert not transport.answered.is_set()
    await all_released(backend)


async def test_a_client_that_waits_for_no_answers_is_refused(held):
    socket, _ = held
    for _ in range(9):
        await socket.send_json({"type": "state"})
    closed = await socket.receive()
    assert (closed.type, closed.data) == (WSMsgType.CLOSE, WSCloseCode.POLICY_VIOLATION)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("{", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ('{"type": "step", "data": [1]}', "VALIDATION_ERROR"),
        ("[" * 100_000, "INVALID_JSON"),
        ('{"type": "dance"}', "UNKNOWN_TYPE"),
        ('{"type": "step", "data": {"content": "a"}}', "SESSION_ERROR"),
        ('{"type": "reset", "data": {"seed": "x"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"task_id": "nope"}}', "EXECUTION_ERROR"),
    ],
)
async def test_a_wrong_message_is_an_error_and_the_session_goes_on(http, sent, code):
    async with session(http) as ask:
        await ask.socket.send_str(sent)
        answer = await ask.socket.receive_json()
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert (await ask("state"))["type"] == "state"


async def test_a_failure_of_the_service_is_an_error_with_its_class_and_no_reward(http, backend):
    async with session(http) as ask:
        await ask("reset", task_id="echo-1")
        backend.failures[Op.EVALUATE] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        failed = await ask("step", content="hello")
        assert failed["type"] == "error"
        assert failed["data"]["problem"] == {"problem_code": "sandbox_failed", "failure_class": "sandbox"}


async def test_the_routes_describe_environments_and_tasks(http):
    assert await (await http.get("/list_environments")).json() == ["echo", "tools"]
    assert (await (await http.get("/echo/schema")).json())["action"]["required"] == ["content"]
    assert (await (await http.get("/echo/metadata")).json())["name"] == "echo"
    assert (await (await http.get("/echo/health")).json()) == {"status": "healthy"}
    assert (await (await http.get("/echo/splits")).json())[0] == {"name": "train", "type": "train"}
    asked = {"split": "train", "index": 1, "start": 0, "stop": 1}
    found = {
        name: await (await http.post(f"/echo/{name}", json=asked)).json()
        for name in ("tasks", "num_tasks", "task", "task_range")
    }
    assert found["num_tasks"]["num_tasks"] == 2
    assert found["task"]["task"] == {"task_id": "echo-10"}
    assert found["task_range"]["tasks"] == [{"task_id": "echo-1"}] == found["tasks"]["tasks"][:1]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/nope/tasks", {"split": "train"}, 404),
        ("/echo/tasks", {"split": "nope"}, 404),
        ("/echo/tasks", {}, 422),
        ("/echo/task", {"split": "train", "index": 2}, 404),
        ("/echo/task", {"split": "train", "index": -1}, 404),
    ],
)
async def test_a_wrong_task_request_says_so(http, path, body, status):
    assert (await http.post(path, json=body)).status == status


async def test_a_shutdown_releases_the_instances_of_open_sessions(client, backend):
    async with TestClient(TestServer(OpenEnvServer(client).application())) as http:
        socket = await http.ws_connect("/echo/ws")
        await socket.send_json({"type": "reset", "data": {"task_id": "echo-10"}})
        await socket.receive_json()
        closing = asyncio.create_task(socket.receive())
        await http.server.close()
        await closing
    assert [episode.released for episode in backend.episodes.values()] == [True]


UPGRADE = """GET /echo/ws HTTP/1.1
Host: localhost
Upgrade: websocket
Connection: Upgrade
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==

""".replace("\n", "\r\n")


@asynccontextmanager
async def raw_session(http):
    """A client with an open episode that by itself answers and reads nothing; gives a function that sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", http.port, limit=1024)

    async def send(message):
        content = json.dumps(message).encode()
        # Masked with zeros.
        writer.write(struct.pack("!BBQL", 0x81, 0x80 | 127, len(content), 0) + content)
        await writer.drain()

    try:
        writer.write(UPGRADE.encode())
        await reader.readuntil(b"\r\n\r\n")
        await send({"type": "reset", "data": {"task_id": "echo-10"}})
        await reader.read(1)
        yield send
    finally:
        writer.transport.abort()


LARGE = {"type": "x" * (7 * 2**20)}
"""A message that its answer quotes."""


@pytest.mark.parametrize(
    ("clients", "sent"),
    [(10, []), (3, [LARGE] * 3)],  # one after another, the first would take 50 s and the second for ever
    ids=["that do not answer", "that do not read"],
)
async def test_a_shutdown_ends_with_clients(client, backend, clients, sent):
    async with TestClient(TestServer(OpenEnvServer(client).application())) as http, AsyncExitStack() as stack:
        for _ in range(clients):
            send = await stack.enter_async_context(raw_session(http))
            for message in sent:
                await send(message)
        async with asyncio.timeout(40.0):
            await http.server.close()
        assert [episode.released for episode in backend.episodes.values()] == [True] * clients


async def test_a_client_that_neither_reads_nor_waits_for_answers_leaves_no_instance(http, backend):
    async with raw_session(http) as send:
        for message in [LARGE] * 3 + [{"type": "state"}] * 9:
            await send(message)
        await all_released(backend, 40.0)


async def test_a_step_after_the_end_is_an_error(http):
    async with session(http) as ask:
        await ask("reset", task_id="echo-1")
        await ask("step", content="a")
        assert (await ask("step", content="b"))["data"]["code"] == "SESSION_ERROR"


async def test_a_web_page_is_refused(http):
    assert (await http.get("/echo/schema", headers={"Origin": "http://a.example"})).status == 403
