"""Episodes that an agent plays by a script, against a service that is told what to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from pydantic import TypeAdapter

from sandbox_client import AgentEpisode
from tests.fakes.agents import LocalAgents
from tests.fakes.told_service import ToldService
from tests.harness.scripted_episodes import TASK
from tests.harness.tiny_chat import tiny_chat
from trainer.agents.launcher import AgentLauncher
from trainer.agents.player import AgentPlayer
from trainer.config.agent import AgentConfig
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import GroupSpec, Trajectory

__all__ = ["agent_player", "ask", "loop", "play_agent", "play_by_agent", "spec_of"]

AGENT: TypeAdapter[Any] = TypeAdapter(AgentConfig)


async def ask(episode: AgentEpisode, messages: Sequence[Any], **more: Any) -> dict[str, Any]:
    """One call of the model, as an SDK makes it; raises httpx.HTTPStatusError for a refusal."""
    body = {"model": episode.model, "messages": list(messages), **more}
    if episode.tools:
        body["tools"] = list(episode.tools)
    async with httpx.AsyncClient(timeout=30) as client:
        response = await client.post(
            f"{episode.base_url}/chat/completions",
            json=body,
            headers={"authorization": f"Bearer {episode.api_key}"},
        )
    response.raise_for_status()
    message: dict[str, Any] = response.json()["choices"][0]["message"]
    return message


async def loop(episode: AgentEpisode) -> None:
    """The loop that most agents are."""
    messages: list[Any] = [*episode.messages]
    while not episode.finished:
        answer = await ask(episode, messages)
        messages.append(answer)
        messages += await episode.step(answer)


def spec_of(max_turns: int = 8, index: int = 3, params: dict[str, Any] | None = None) -> GroupSpec:
    """The group of which scripted episodes play a member."""
    return GroupSpec(index, TASK, seed=40, size=4, max_turns=max_turns, params=params or {})


@asynccontextmanager
async def agent_player(
    service: ToldService, launcher: AgentLauncher, policy: Any, **settings: Any
) -> AsyncIterator[AgentPlayer]:
    """A started player. ``settings``: agent, chat, config, service_times, transport, watch."""
    given = {"grace_s": 0.1, **settings.pop("agent", {})}
    agent = AGENT.validate_python(given if "kind" in given else {"function": "here:play", **given})
    chat = tiny_chat(**settings.pop("chat", {}))
    config = RolloutConfig.model_validate(settings.pop("config", {}))
    times = SandboxServiceConfig.model_validate(settings.pop("service_times", {}))
    async with service.client(**settings.pop("transport", {})) as client:
        player = AgentPlayer(agent, launcher, client, policy, chat, config, times, **settings)
        await player.start()
        try:
            yield player
        finally:
            await player.close()


async def play_agent(
    service: ToldService, function: Any, *lines: str, max_turns: int = 8, index: int = 3, **settings: Any
) -> Trajectory:
    """Member 2 of a group, played by a function in this loop, the model saying some lines."""
    spec = spec_of(max_turns, index, settings.pop("params", None))
    policy = settings.pop("policy", None) or ScriptedPolicy({"t": lines}, tiny_chat())
    sampling = SamplingConfig.model_validate(settings.pop("sampling", {}))
    async with agent_player(service, LocalAgents(function), policy, **settings) as player:
        return await player.play_episode(spec, 2, sampling)


async def play_by_agent(service: ToldService, *lines: str, **settings: Any) -> Trajectory:
    """As ``scripted_episodes.play`` does, with an agent that is the usual loop."""
    return await play_agent(service, loop, *lines, **settings)
