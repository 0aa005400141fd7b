"""Agents elsewhere: each episode is posted to a server, whose answer, or whose call, ends it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from sandbox_client import AgentEpisode
from tests.fakes.told_service import ToldService, observed
from tests.harness.agent_episodes import agent_player, ask, loop, spec_of
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT
from tests.harness.tiny_chat import tiny_chat
from trainer.agents.remote import RemoteAgents
from trainer.config.rollout import SamplingConfig
from trainer.errors import ConfigError
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason


@asynccontextmanager
async def server_of(answer):
    """A server that answers every post with a function of the document, None for none; its address."""

    async def handle(request):
        response = await answer(await request.json())
        if response is None:
            request.transport.abort()
        return response or web.Response()

    application = web.Application()
    application.router.add_post("/play", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/play"
    finally:
        await runner.cleanup()


async def played_by(answer, service, *lines, **agent):
    policy = ScriptedPolicy({"t": lines}, tiny_chat())
    async with server_of(answer) as url:
        settings = {"kind": "remote", "url": url, **agent}
        async with agent_player(service, RemoteAgents(url), policy, agent=settings) as player:
            return await player.play_episode(spec_of(), 2, SamplingConfig())


def episode_of(document):
    return AgentEpisode(document["episode_url"], document["api_key"])


async def test_the_answer_ends_the_episode():
    async def plays(document):
        async with episode_of(document) as episode:
            assert [message["role"] for message in document["messages"]] == ["system", "user"]
            assert document["model"] == "policy"
            await loop(episode)
        return web.Response()

    played = await played_by(plays, ToldService([observed("95", reward=0.5), END]), PROGRAM, SUBMIT)
    assert (played.stop, played.score) == (StopReason.TERMINATED, 1.0)
    assert [turn.reward for turn in played.turns] == [0.5, 0.0]


async def test_an_agent_may_play_while_its_answer_is_streamed():
    async def streams(document):
        async def body():
            yield b"thinking\n"
            async with episode_of(document) as episode:
                await loop(episode)
            yield b"done\n"

        return web.Response(body=body())

    played = await played_by(streams, ToldService([observed("95", reward=0.5), END]), PROGRAM, SUBMIT)
    assert (played.stop, played.score) == (StopReason.TERMINATED, 1.0)
    assert [turn.reward for turn in played.turns] == [0.5, 0.0]


async def test_a_server_that_ends_within_its_answer_is_lost_whatever_was_played():
    async def breaks(document):
        async def body():
            yield b"thinking\n"
            async with episode_of(document) as episode:
                await ask(episode, episode.messages)
            raise ConnectionResetError

        return web.Response(body=body())

    played = await played_by(breaks, ToldService([]), PROGRAM)
    assert played.failure is not None
    assert (played.failure.code, played.score) == ("agent_lost", None)


async def test_an_answer_that_never_ends_is_left_at_its_time():
    async def holds(document):
        async def body():
            async with episode_of(document) as episode:
                await ask(episode, episode.messages)
            yield b"thinking\n"
            await asyncio.Event().wait()

        return web.Response(body=body())

    played = await played_by(holds, ToldService([]), PROGRAM, timeout_s=2.0)
    assert played.stop is StopReason.TIME_LIMIT


@pytest.mark.parametrize(
    ("error", "stop"),
    [(None, StopReason.AGENT_ENDED), ("out of ideas", StopReason.AGENT_ERROR)],
    ids=["ends", "fails"],
)
async def test_after_202_the_agent_ends_the_episode_itself(error, stop):
    later = []

    async def plays(document):
        async def play():
            async with episode_of(document) as episode:
                await ask(episode, episode.messages)
                await episode.end(error)

        later.append(asyncio.create_task(play()))
        return web.Response(status=202)

    played = await played_by(plays, ToldService([]), PROGRAM)
    assert played.stop is stop
    await asyncio.gather(*later)


async def test_a_status_that_is_an_error_is_the_agents_failure():
    async def fails(document):
        return web.Response(status=500, text="no room")

    played = await played_by(fails, ToldService([]))
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("agent", "agent_failed")
    assert played.failure.detail.endswith("answered 500: no room")


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_server_that_a_proxy_does_not_reach_is_lost_whatever_was_played(status):
    async def away(document):
        async with episode_of(document) as episode:
            await ask(episode, episode.messages)
        return web.Response(status=status, text="no upstream")

    played = await played_by(away, ToldService([]), PROGRAM)
    assert played.failure is not None
    assert (played.failure.code, played.score) == ("agent_lost", None)
    assert played.failure.detail.endswith(f"answered {status}: no upstream")


async def test_a_server_that_ends_during_an_episode_is_lost_whatever_was_played():
    async def dies(document):
        async with episode_of(document) as episode:
            await ask(episode, episode.messages)

    played = await played_by(dies, ToldService([]), PROGRAM)
    assert played.failure is not None
    assert (played.failure.code, played.score) == ("agent_lost", None)


async def test_a_server_that_never_answers_is_left_at_its_time():
    async def never(document):
        async with episode_of(document) as episode:
            await ask(episode, episode.messages)
        await asyncio.Event().wait()

    played = await played_by(never, ToldService([]), PROGRAM, timeout_s=2.0)
    assert played.stop is StopReason.TIME_LIMIT


async def test_a_url_that_does_not_answer_is_refused_in_a_sentence():
    async def never(document):
        return web.Response()

    async with server_of(never) as url:
        pass
    with pytest.raises(ConfigError, match=f"agent: {url} cannot be reached"):
        await RemoteAgents(url).start()
