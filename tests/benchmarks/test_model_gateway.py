"""The arithmetic of the gateway's benchmark, without a measurement."""

import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.benchmarks.gateway_agents import ANSWER, DIALECTS, Agent
from tests.benchmarks.gateway_conversation import conversation
from tests.benchmarks.model_gateway import bare_seconds
from tests.harness.served_gateway import served
from tests.harness.tiny_chat import tiny_folder


def test_splice_and_render_train_the_same_tokens_in_one_sequence_and_in_several() -> None:
    recorded = conversation(tiny_folder())
    assert recorded["splice"]["sequences"] == 1
    assert recorded["render"]["sequences"] == 4
    assert recorded["difference"]["trained_tokens"] == 0
    assert recorded["difference"]["tokens"] > 0


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_agent_of_the_benchmark_holds_a_conversation_with_tools(dialect: str) -> None:
    async with served(ANSWER, context_tokens=30_000) as at, aiohttp.ClientSession() as http:
        agent = Agent(http, at.gateway.url, at.session.api_key, dialect=dialect)
        for _ in range(3):
            await agent.call()
        recording = await at.session.close()
        assert len(agent.seconds) == 3
        assert [call.spliced for call in recording.calls] == [False, True, True]
        assert len(recording.segments) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_bare_server_reads_the_bodies_that_the_gateway_read(dialect: str) -> None:
    read: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        read.append(await request.read())
        return web.Response()

    bare = web.Application()
    bare.router.add_post("/{path:.*}", answer)
    async with (
        served(ANSWER, context_tokens=30_000) as at,
        TestServer(bare) as server,
        aiohttp.ClientSession() as http,
    ):
        agent = Agent(http, at.gateway.url, at.session.api_key, dialect=dialect)
        for _ in range(3):
            await agent.call()
        seconds = await bare_seconds(http, str(server.make_url("")).rstrip("/"), [agent])
    assert len(seconds) == 3
    assert read == agent.sent
    assert all(json.loads(body)["tools"] for body in read)
    assert len(read[0]) < len(read[1]) < len(read[2])
