"""What runs a run's agent, by its kind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.agent import CommandAgent, FunctionAgent, RemoteAgent

from .host_messages import HostSettings
from .hosts import HostedAgents
from .remote import RemoteAgents

if TYPE_CHECKING:
    from trainer.config.agent import AgentConfig

    from .launcher import AgentLauncher


def make_launcher(agent: AgentConfig, logs: Path | None, hidden: frozenset[str]) -> AgentLauncher:
    """Return what runs an agent, not yet started.

    Args:
        agent: the agent.
        logs: folder for its output.
        hidden: environment variables that it does not get, such as the service's key.
    """
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
    """Check that an agent can be run: that it imports, is found, or answers. Raises ConfigError."""
    one = agent if isinstance(agent, RemoteAgent) else agent.model_copy(update={"processes": 1})
    asyncio.run(_start_and_close(make_launcher(one, logs, frozenset())))


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
