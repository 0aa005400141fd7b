"""Settings of a run that keep the model from its agents end the run; an agent's own mistakes do not."""

import asyncio

import pytest

from tests.fakes.failing_format import FAILING, UNREAD
from tests.fakes.told_service import ToldService
from tests.harness.agent_episodes import ask, loop, play_agent
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT
from trainer.errors import AgentLost, ConfigError
from trainer.types import StopReason

TOOL = {"type": "function", "function": {"name": "submit", "description": "", "parameters": {}}}

UNREAD_TOOL = {"type": "function", "function": {"name": "unread", "parameters": {}}}


async def test_a_run_whose_settings_keep_the_model_from_calling_the_agents_tools_stops():
    service = ToldService([END], tools=[TOOL])
    with pytest.raises(ConfigError, match=r"set chat\.tool_format, which is 'text', to"):
        await play_agent(service, loop, SUBMIT)
    assert service.live == {}


async def test_a_run_whose_agent_asks_for_a_model_of_another_name_stops():
    async def swallows(episode):
        with pytest.raises(Exception, match="404"):
            await ask(episode, episode.messages, model="gpt-4o")

    service = ToldService([])
    with pytest.raises(ConfigError, match=r"set agent\.model_name to 'gpt-4o'"):
        await play_agent(service, swallows)
    assert service.live == {}


async def test_a_call_of_another_model_beside_the_agents_own_does_not_stop_the_run():
    class Broken:
        async def generate(self, request):
            await asyncio.sleep(3600)

    async def asks_both(episode):
        with pytest.raises(Exception, match="404"):
            await ask(episode, episode.messages, model="small")
        await ask(episode, episode.messages)

    async def asks_the_other_later(episode):
        own = asyncio.create_task(ask(episode, episode.messages))
        await asyncio.sleep(0.3)
        with pytest.raises(Exception, match="404"):
            await ask(episode, episode.messages, model="small")
        await own

    for asks in (asks_both, asks_the_other_later):
        played = await play_agent(ToldService([]), asks, policy=Broken(), agent={"timeout_s": 2.0})
        assert (played.stop, played.score) == (StopReason.FAILED, None)
    played = await play_agent(ToldService([]), asks_both, PROGRAM)
    assert (played.stop, len(played.turns)) == (StopReason.AGENT_ENDED, 1)


@pytest.mark.parametrize(
    ("tools", "lines"),
    [((), (UNREAD, SUBMIT)), ((UNREAD_TOOL,), (SUBMIT,))],
    ids=["parse", "describe_tools"],
)
async def test_a_run_whose_tool_format_fails_stops_though_a_later_call_is_answered(tools, lines):
    async def goes_on(episode):
        with pytest.raises(Exception, match="500"):
            await ask(episode, episode.messages, tools=list(tools))
        await ask(episode, episode.messages)

    chat = {"tool_format": FAILING, "tools": "prompt"}
    with pytest.raises(ConfigError, match=r"failing_format:FailingFormat'.* raised KeyError"):
        await play_agent(ToldService([]), goes_on, *lines, chat=chat)


async def test_a_lost_agent_is_lost_though_it_asked_for_another_model():
    async def asks_and_is_lost(episode):
        with pytest.raises(Exception, match="404"):
            await ask(episode, episode.messages, model="small")
        raise AgentLost("the process that ran the agent has ended")

    played = await play_agent(ToldService([]), asks_and_is_lost)
    assert played.failure is not None
    assert played.failure.code == "agent_lost"
