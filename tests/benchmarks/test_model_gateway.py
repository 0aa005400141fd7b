"""The arithmetic of the gateway's benchmark, without a measurement."""

import pytest

from tests.benchmarks.gateway_agents import ANSWER, DIALECTS, Agent
from tests.benchmarks.gateway_conversation import conversation
from tests.harness.served_gateway import served
from tests.harness.tiny_chat import tiny_folder

aiohttp = pytest.importorskip("aiohttp")


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
