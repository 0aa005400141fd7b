"""Choose the launcher of a run's agent by its kind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.agent import BoxAgent, CommandAgent, FunctionAgent, RemoteAgent

from .box import BoxLauncher
from .host_messages import HostSettings
from .hosts import HostedAgents
from .remote import RemoteAgents

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.config.agent import AgentConfig

    from .launcher import AgentLauncher


def make_launcher(
    agent: AgentConfig,
    logs: Path | None,
    hidden: frozenset[str],
    client: AsyncSandboxClient,
    environment: str,
) -> AgentLauncher:
    """Return what runs an agent, not yet started.

    Args:
        agent: the agent.
        logs: folder for its output.
        hidden: environment variables that it does not get, such as the service's key.
        client: of the service that has the instances; it stays open.
        environment: of the instances.
    """
    if isinstance(agent, BoxAgent):
        return BoxLauncher(client, environment, agent)
    return _outside(agent, logs, hidden)


def _outside(
    agent: FunctionAgent | CommandAgent | RemoteAgent, logs: Path | None, hidden: frozenset[str]
) -> AgentLauncher:
    """Return what runs an agent that does not run in the service."""
    if isinstance(agent, RemoteAgent):
        return RemoteAgents(agent.url, agent.start_timeout_s)
    return HostedAgents(
        _host_settings(agent),
        agent.processes,
        folder=agent.working_folder,
        logs=logs,
        start_timeout_s=agent.start_timeout_s,
        hidden=hidden,
        python=agent.python if isinstance(agent, FunctionAgent) else None,
    )


def check_agent(agent: AgentConfig, logs: Path) -> None:
    """Check that an agent can be run: that it imports, is found, or answers. Raises ConfigError.

    Agents in boxes are checked by their launcher: the service knows what runs in its boxes.
    """
    if isinstance(agent, BoxAgent):
        return
    one = agent if isinstance(agent, RemoteAgent) else agent.model_copy(update={"processes": 1})
    asyncio.run(_start_and_close(_outside(one, logs, frozenset())))


async def _start_and_close(launcher: AgentLauncher) -> None:
    try:
        await launcher.start()
    finally:
        await launcher.close()


def _host_settings(agent: FunctionAgent | CommandAgent) -> HostSettings:
    return HostSettings(
        function=agent.function if isinstance(agent, FunctionAgent) else None,
        command=agent.command if isinstance(agent, CommandAgent) else (),
        environment=agent.environment,
        python_path=os.environ.get("PYTHONPATH"),
    )
