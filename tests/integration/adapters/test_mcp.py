"""An MCP client sees the tools and the task of one instance."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import Client
from mcp.shared.exceptions import MCPError

from sandbox_client import AsyncSandboxClient
from sandbox_client.adapters.mcp import META, TASK_PROMPT, instance_server
from sandbox_client.adapters.refusals import UnplayableError
from sandbox_client.errors import CounterpartFailed, SandboxError
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.backend import EchoBackend
from tests.fakes.pictures import PNG
from tests.harness.gateway import make_registry
from tests.harness.held_steps import HeldSteps
from tests.harness.http_server import serving


async def test_a_client_lists_tools_calls_them_and_reads_the_task(client, backend):
    async with instance_server(client, "tools", "echo-1") as (server, served), Client(server) as mcp:
        assert mcp.instructions == "Say something."
        assert [tool.name for tool in (await mcp.list_tools()).tools] == [
            t.function.name for t in served.episode.tools
        ]
        prompt = await mcp.get_prompt(TASK_PROMPT)
        assert prompt.messages[0].content.text == "Say something."
        answer = await mcp.call_tool("shout", {"louder": True})
        assert answer.content[0].text == "shout"
        assert answer.meta[META + "terminated"] is True
        assert not answer.is_error
        over = await mcp.call_tool("shout", {})
        assert over.is_error
        assert "over" in over.content[0].text
    assert [episode.released for episode in backend.episodes.values()] == [True]


async def test_an_environments_pictures_are_image_contents_after_the_text(client, backend):
    backend.images = [PNG]
    async with instance_server(client, "tools", "echo-1") as (server, _), Client(server) as mcp:
        answer = (await mcp.call_tool("shout", {})).content
        prompt = [message.content for message in (await mcp.get_prompt(TASK_PROMPT)).messages]
    for text, picture in (answer, prompt):
        assert text.type == "text"
        assert f"data:{picture.mime_type};base64,{picture.data}" == PNG


async def test_parameters_reach_the_environment(client, backend):
    made = instance_server(client, "tools", "echo-1", params={"volume": 9})
    async with made as (server, _), Client(server) as mcp:
        assert [tool.name for tool in (await mcp.list_tools()).tools] == ["shout_9"]


async def test_an_episode_whose_counterpart_is_a_model_is_not_served(client, backend):
    backend.awaits = Op.CREATE
    with pytest.raises(CounterpartFailed, match="a model that plays its 'user'"):
        async with instance_server(client, "tools", "echo-10"):
            pass
    assert [episode.released for episode in backend.episodes.values()] == [True]


@pytest.mark.parametrize("texts", ["dialogue", "last"])
async def test_a_task_that_needs_texts_is_not_served_as_mcp_has_tool_calls_only(client, backend, texts):
    backend.opening_info = {"texts": texts}
    with pytest.raises(UnplayableError, match="messages without a call"):
        async with instance_server(client, "tools", "echo-10"):
            pass
    assert [episode.released for episode in backend.episodes.values()] == [True]


async def test_a_second_session_has_no_verdict_as_its_client_keeps_the_first_in_view(client, backend):
    async with instance_server(client, "tools", "echo-10") as (server, served), Client(server) as mcp:
        backend.step_info = {"new_session": True}
        for _ in range(2):
            with pytest.raises(MCPError, match="several sessions"):
                await mcp.call_tool("shout", {})
            backend.step_info = {}
        with pytest.raises(UnplayableError, match="several sessions"):
            await served.evaluate()
    assert [episode.steps for episode in backend.episodes.values()] == [1]


async def test_what_a_counterpart_is_shown_is_no_answer_of_a_tool(client, backend):
    async with instance_server(client, "tools", "echo-10") as (server, served), Client(server) as mcp:
        backend.awaits = Op.STEP
        for _ in range(2):
            with pytest.raises(MCPError, match="a model that plays its 'user'"):
                await mcp.call_tool("shout", {})
        with pytest.raises(CounterpartFailed, match="a model that plays its 'user'"):
            await served.evaluate()
    assert [episode.steps for episode in backend.episodes.values()] == [1]


async def test_an_episode_that_the_service_cut_off_has_no_verdict_and_one_that_went_on_has(client, backend):
    async with instance_server(client, "tools", "echo-1") as (server, served), Client(server) as mcp:
        backend.failures[Op.STEP] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        with pytest.raises(MCPError, match="broken"):
            await mcp.call_tool("shout", {})
        with pytest.raises(SandboxError, match="broken"):
            await served.evaluate()
        del backend.failures[Op.STEP]
        await mcp.call_tool("shout", {})
        assert (await served.evaluate()).success


async def cancel_one(transport, mcp):
    call = asyncio.create_task(mcp.call_tool("shout", {}))
    await transport.executed.wait()
    call.cancel()
    await asyncio.wait({call})
    transport.answered.set()


async def test_a_call_that_its_client_cancelled_leaves_the_episode_whole(backend):
    transport = HeldSteps(backend)
    async with (
        AsyncSandboxClient("http://localhost", transport=transport) as client,
        instance_server(client, "tools", "echo-10") as (server, served),
        Client(server) as mcp,
    ):
        await cancel_one(transport, mcp)
        assert not (await mcp.call_tool("shout", {})).is_error
        assert (await served.evaluate()).details == {"steps": 2}


async def test_a_cancelled_call_whose_step_was_made_is_the_latest_one(backend):
    transport = HeldSteps(backend)
    transport.answered.set()
    async with (
        AsyncSandboxClient("http://localhost", transport=transport) as client,
        instance_server(client, "tools", "echo-10") as (server, served),
        Client(server) as mcp,
    ):
        backend.failures[Op.STEP] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        with pytest.raises(MCPError, match="broken"):
            await mcp.call_tool("shout", {})
        del backend.failures[Op.STEP]
        transport.executed.clear()
        transport.answered.clear()
        await cancel_one(transport, mcp)
        assert (await served.evaluate()).details == {"steps": 1}


async def test_a_cancelled_call_that_came_to_a_counterparts_turn_leaves_no_verdict(backend):
    transport = HeldSteps(backend)
    async with (
        AsyncSandboxClient("http://localhost", transport=transport) as client,
        instance_server(client, "tools", "echo-10") as (server, served),
        Client(server) as mcp,
    ):
        backend.awaits = Op.STEP
        await cancel_one(transport, mcp)
        with pytest.raises(MCPError, match="a model that plays its 'user'"):
            await mcp.call_tool("shout", {})
        with pytest.raises(CounterpartFailed):
            await served.evaluate()
    assert [episode.steps for episode in backend.episodes.values()] == [1]


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
OPENING = [{"id": 1, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"}]
SHOUT = {"id": 2, "method": "tools/call", "params": {"name": "shout", "arguments": {}}}


def start_command(address):
    words = ["mcp", "--env", "tools", "--task", "echo-10", "--server", address, "--evaluate"]
    started = [Path(sys.executable).with_name("sandbox-service"), *words]
    return subprocess.Popen(started, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)


def send(command, *requests):
    for request in requests:
        command.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
        command.stdin.flush()


def test_the_command_gives_a_verdict_though_its_client_takes_no_more_answers(address, backend):
    with start_command(address) as command:
        send(command, *OPENING)
        command.stdout.readline()
        command.stdout.close()
        send(command, SHOUT)
        _, notes = command.communicate(timeout=60)
    assert command.returncode == 0, notes
    assert json.loads(notes)["details"] == {"steps": 1}
    assert [episode.released for episode in backend.episodes.values()] == [True]


def test_the_command_prints_the_failure_in_place_of_a_verdict(address, backend):
    backend.awaits = Op.STEP
    with start_command(address) as command:
        send(command, *OPENING)
        command.stdout.readline()
        send(command, SHOUT)
        answer = command.stdout.readline()
        assert "a model that plays its 'user'" in answer
        _, notes = command.communicate(timeout=60)
    assert command.returncode == 1
    assert "a model that plays its 'user'" in notes
    assert "score" not in notes
    assert [episode.released for episode in backend.episodes.values()] == [True]


def test_a_last_request_without_a_line_end_is_answered(address):
    requests = [json.dumps({"jsonrpc": "2.0", **request}) for request in [*OPENING, SHOUT]]
    with start_command(address) as command:
        answers, notes = command.communicate("\n".join(requests), timeout=60)
    assert command.returncode == 0, notes
    assert [json.loads(line)["id"] for line in answers.splitlines()] == [1, 2]


def test_the_command_ends_without_a_standard_input(address, backend):
    words = ["mcp", "--env", "tools", "--task", "echo-10", "--server", address]
    closed = 'exec "$0" "$@" <&-'
    command = Path(sys.executable).with_name("sandbox-service")
    done = subprocess.run(
        ["sh", "-c", closed, command, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [episode.released for episode in backend.episodes.values()] == [True]


def test_what_became_descriptor_0_is_not_read_where_standard_input_was_closed():
    script = (
        "import asyncio, sys; sys.stdin = None; from mcp.server.lowlevel import Server;"
        "from sandbox_client.adapters.mcp import serve_stdio; asyncio.run(serve_stdio(Server('none')))"
    )
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w"):
        subprocess.run([sys.executable, "-c", script], stdin=reading, timeout=60, check=True)


class HeldBackend(EchoBackend):
    """Holds the answers to one operation until ``answer`` is set."""

    def __init__(self, held):
        super().__init__()
        self.held = held
        self.asked, self.answer = threading.Event(), threading.Event()

    async def call(self, op, **asked):
        if op is self.held:
            self.asked.set()
            await asyncio.to_thread(self.answer.wait, 60)
        return await super().call(op, **asked)


@contextmanager
def held_command(held):
    """A command, and its backend, which holds the answers to one operation."""
    backend = HeldBackend(held)
    with serving(build_app(ServerConfig(), make_registry(), backend)) as url, start_command(url) as command:
        try:
            yield command, backend
        finally:
            backend.answer.set()
            command.kill()


@contextmanager
def opened_command():
    """A command whose verdict is held back."""
    with held_command(Op.EVALUATE) as (command, backend):
        send(command, *OPENING)
        command.stdout.readline()
        yield command, backend
    assert [episode.released for episode in backend.episodes.values()] == [True]


def stop_at_grading(command, backend):
    """Leave as MCP's clients do, and send SIGTERM."""
    command.stdin.close()
    assert backend.asked.wait(60)
    command.send_signal(signal.SIGTERM)


def test_a_verdict_that_comes_soon_after_sigterm_is_printed():
    with opened_command() as (command, backend):
        stop_at_grading(command, backend)
        backend.answer.set()
        assert json.loads(command.stderr.read())["details"] == {"steps": 0}
        assert command.wait(60) == 0


def test_a_command_that_is_stopped_while_grading_says_that_there_is_no_verdict():
    with opened_command() as (command, backend):
        stop_at_grading(command, backend)
        assert "no verdict: stopped by SIGTERM while grading" in command.stderr.read()
        assert command.wait(60) == 1


def test_a_command_that_is_stopped_before_its_client_leaves_says_that_there_is_no_verdict():
    with opened_command() as (command, _):
        command.send_signal(signal.SIGTERM)
        assert "no verdict: stopped by SIGTERM" in command.stderr.read()
        assert command.wait(60) == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_releases_the_instance_while_the_client_is_still_there(sent):
    with opened_command() as (command, backend):
        command.send_signal(sent)
        command.wait(60)
        assert [episode.released for episode in backend.episodes.values()] == [True]


def test_a_command_that_is_stopped_while_its_instance_is_created_says_that_there_is_no_verdict():
    with held_command(Op.CREATE) as (command, backend):
        assert backend.asked.wait(60)
        command.send_signal(signal.SIGTERM)
        command.stdin.close()
        assert "no verdict: stopped by SIGTERM" in command.stderr.read()
        assert command.wait(60) == 1


def test_ctrl_c_is_not_reported_as_sigterm():
    with opened_command() as (command, _):
        command.send_signal(signal.SIGINT)
        assert "SIGTERM" not in command.stderr.read()
        assert command.wait(60) == 130


async def test_an_unknown_prompt_is_refused(client):
    async with instance_server(client, "echo", "echo-1") as (server, _), Client(server) as mcp:
        with pytest.raises(MCPError, match="no prompt"):
            await mcp.get_prompt("nope")


async def test_a_failure_of_the_service_is_an_error_of_the_protocol_with_its_class(client, backend):
    async with instance_server(client, "tools", "echo-10") as (server, _), Client(server) as mcp:
        backend.failures[Op.STEP] = ServiceError(ErrorCode.SANDBOX_FAILED, "broken")
        with pytest.raises(MCPError, match="broken") as caught:
            await mcp.call_tool("shout", {})
        assert caught.value.error.data == {"problem_code": "sandbox_failed", "failure_class": "sandbox"}
        backend.failures[Op.STEP] = ServiceError(ErrorCode.INVALID_REQUEST, "too long")
        refused = await mcp.call_tool("shout", {})
        assert refused.is_error
        assert "too long" in refused.content[0].text
        del backend.failures[Op.STEP]
        assert not (await mcp.call_tool("shout", {})).is_error


async def test_calls_at_once_are_taken_one_after_the_other(client, backend):
    async with instance_server(client, "tools", "echo-10") as (server, _), Client(server) as mcp:
        answers = await asyncio.gather(*(mcp.call_tool("shout", {}) for _ in range(4)))
    assert not any(answer.is_error for answer in answers)
    assert [episode.steps for episode in backend.episodes.values()] == [4]
