"""Run agents: the data that one gets for an episode, and the launchers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox_contract.agents import AgentTask


@dataclass(frozen=True, slots=True)
class AgentJob:
    """One episode for an agent to play."""

    trajectory_id: str
    task: AgentTask
    """Addresses of the model and of the episode, the opening messages and the tools."""
    api_key: str = field(repr=False)
    """Key of this episode, for both addresses."""
    instance_id: str
    """The instance in the service."""
    timeout_s: float
    """Seconds after which the run is cancelled."""

    @property
    def root_url(self) -> str:
        """Address of the gateway without ``/v1``, as Anthropic's SDK wants it."""
        return self.task.base_url.removesuffix("/v1")

    @property
    def text(self) -> str:
        """The task in words: what the opening's user messages say."""
        said = [message.content or "" for message in self.task.messages if message.role == "user"]
        return "\n\n".join(said)

    def variables(self) -> dict[str, str]:
        """Return the environment variables by which common SDKs and ``AgentEpisode`` find the trainer."""
        return {
            "OPENAI_BASE_URL": self.task.base_url,
            "OPENAI_API_KEY": self.api_key,
            "ANTHROPIC_BASE_URL": self.root_url,
            "ANTHROPIC_API_KEY": self.api_key,
            "AGENT_MODEL": self.task.model,
            "AGENT_EPISODE_URL": self.task.episode_url,
        }


class AgentLauncher(Protocol):
    """Runs agents, many at a time."""

    async def start(self) -> None:
        """Get ready to run agents. Raises ConfigError for an agent that cannot be run."""
        ...

    async def run(self, job: AgentJob) -> None:
        """Run one agent until it ends.

        A cancellation ends the agent with all its processes, before it is passed on.

        Raises:
            AgentFailed: the agent raised, or exited with an error.
            AgentLost: what ran the agent ended, without the agent's doing.
        """
        ...

    async def close(self) -> None:
        """End all agents and what runs them."""
        ...
