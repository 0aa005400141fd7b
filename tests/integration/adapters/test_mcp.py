"""An MCP client sees the tools and the task of one instance."""

import asyncio

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import Client
from mcp.shared.exceptions import MCPError

from sandbox_client.adapters.mcp import META, TASK_PROMPT, instance_server
from sandbox_client.errors import CounterpartFailed
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Op
from tests.fakes.pictures import PNG


async def test_a_client_lists_tools_calls_them_and_reads_the_task(client, backend):
    async with instance_server(client, "tools", "echo-1") as (server, episode), Client(server) as mcp:
        assert mcp.instructions == "Say something."
        assert [tool.name for tool in (await mcp.list_tools()).tools] == [
            t.function.name for t in episode.tools
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


async def test_what_a_counterpart_is_shown_is_no_answer_of_a_tool(client, backend):
    async with instance_server(client, "tools", "echo-10") as (server, _), Client(server) as mcp:
        backend.awaits = Op.STEP
        with pytest.raises(MCPError, match="a model that plays its 'user'"):
            await mcp.call_tool("shout", {})


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
