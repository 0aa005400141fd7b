"""Create the service's client and the player of a run's episodes, with its agent if it has one."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_client import AsyncSandboxClient, ClientLimits
from trainer.agents.launchers import make_launcher
from trainer.agents.player import AgentPlayer
from trainer.errors import ConfigError
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.reflection import ReflectivePlayer

if TYPE_CHECKING:
    from trainer.chat import ChatTokenizer
    from trainer.config import RunConfig, SandboxServiceConfig
    from trainer.config.agent import AgentConfig
    from trainer.engines.generation import Policy
    from trainer.rollout.progress import ProgressMonitor


def freeze_startup_objects() -> None:
    """Leave the objects of all modules out of garbage collections, for a process that plays episodes.

    Each full collection would visit those of torch and transformers again, a million or so.
    """
    gc.collect()
    gc.freeze()


def open_client(service: SandboxServiceConfig, url: str, api_key: str | None = None) -> AsyncSandboxClient:
    """Return a client of the run's service."""
    limits = ClientLimits(in_flight=service.in_flight, creating=service.creating, agents=service.in_flight)
    return AsyncSandboxClient(url, api_key, limits=limits)


def make_player(
    config: RunConfig,
    folder: Path,
    client: AsyncSandboxClient,
    policy: Policy,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
) -> EpisodePlayer | AgentPlayer:
    """Return what plays episodes in this process: the trainer's own loop, or the run's agent, not started.

    Raises ConfigError if neither the model nor the settings limit the length of a conversation.
    """
    reflection = config.rollout.reflection if config.steps else None
    if reflection is not None and config.agent is not None:
        raise ConfigError("a reflection needs the trainer's own loop: leave agent or the reflection out")
    if reflection is not None and reflection.fork_turn is not None and config.rollout.counterpart is not None:
        raise ConfigError("a counterpart cannot be forked: leave rollout.counterpart or fork_turn out")
    if config.agent is not None and config.steps:
        return _agent_player(config, config.agent, folder, client, policy, chat, watch)
    if reflection is not None:
        parts = (config.rollout, config.service, watch, reflection, folder)
        return ReflectivePlayer(client, policy, chat, *parts)
    return EpisodePlayer(client, policy, chat, config.rollout, config.service, watch)


async def start_player(
    config: RunConfig,
    folder: Path,
    client: AsyncSandboxClient,
    policy: Policy,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
) -> EpisodePlayer | AgentPlayer:
    """Return a player that is ready to play. Where that fails, the client is closed.

    Raises ConfigError as ``make_player`` and ``AgentPlayer.start`` do.
    """
    try:
        player = make_player(config, folder, client, policy, chat, watch)
        if isinstance(player, AgentPlayer):
            await player.start()
    except BaseException:
        await client.aclose()
        raise
    return player


@asynccontextmanager
async def open_demonstrating_agent(
    config: RunConfig,
    agent: AgentConfig,
    folder: Path,
    client: AsyncSandboxClient,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
    policy: Policy,
) -> AsyncIterator[AgentPlayer]:
    """Open the run's agent for the warm start: each message of a demonstration answers one of its calls, so
    that the model is fine-tuned behind the agent's own prompts.
    """
    # A demonstration has as many calls as messages.
    unlimited = agent.model_copy(update={"max_calls": None, "sampled_tokens": None})
    player = _agent_player(config, unlimited, folder, client, policy, chat, watch)
    await player.start()
    try:
        yield player
    finally:
        await player.close()


def _agent_player(
    config: RunConfig,
    agent: AgentConfig,
    folder: Path,
    client: AsyncSandboxClient,
    policy: Policy,
    chat: ChatTokenizer,
    watch: ProgressMonitor,
) -> AgentPlayer:
    hidden = frozenset({config.service.api_key_variable})
    launcher = make_launcher(agent, folder / "logs", hidden, client, config.tasks.environments[0])
    return AgentPlayer(agent, launcher, client, policy, chat, config.rollout, config.service, watch)
