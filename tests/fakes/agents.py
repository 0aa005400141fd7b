"""A launcher that runs agents in the test's own loop, for tests of what happens around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sandbox_client import AgentEpisode
from trainer.agents.launcher import AgentJob
from trainer.errors import AgentFailed

__all__ = ["LocalAgents"]


class LocalAgents:
    """Implements ``AgentLauncher`` over an async function; what it raises is a failure of the agent."""

    def __init__(self, function: Callable[[AgentEpisode], Awaitable[object]]) -> None:
        self._function = function
        self.jobs: list[AgentJob] = []
        self.closed = False

    async def start(self) -> None:
        pass

    async def run(self, job: AgentJob) -> None:
        self.jobs.append(job)
        try:
            async with AgentEpisode(job.task.episode_url, job.api_key) as episode:
                await self._function(episode)
        except AgentFailed:
            raise
        except Exception as error:
            raise AgentFailed(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        self.closed = True
