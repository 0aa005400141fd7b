"""Run agents inside the sandboxes of their episodes; the model comes through the service's stream."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandbox_client.errors import RequestError, SandboxError
from sandbox_contract.problems import ErrorCode
from trainer.errors import AgentFailed, AgentLost, ConfigError

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from sandbox_contract.agent_runs import RunAgentResult
    from trainer.config.agent import BoxAgent

    from .launcher import AgentJob


_TASK = "{task}"
_ENDPOINT = "{model_endpoint}"
"""Placeholder for which the service fills in the address at which an agent finds the gateway."""
_END_S = 20.0
"""Time in which the service ends an agent whose time is over by the caller's clock."""
_ALMOST = 0.99
_LAST_WORDS = 2000
_MISCONFIGURED = (
    ErrorCode.AGENTS_UNSUPPORTED,
    ErrorCode.UNKNOWN_AGENT_PACKAGE,
    ErrorCode.MODEL_ENDPOINT_FORBIDDEN,
    ErrorCode.MODEL_ENDPOINT_UNSUPPORTED,
)
"""Refusals that every other episode would meet as well."""


class BoxLauncher:
    """Implements ``AgentLauncher`` with the service's ``run_agent``.

    An agent works on the files of its instance. It cannot take steps, since the instance is its own while it
    runs.
    """

    def __init__(self, client: AsyncSandboxClient, environment: str, settings: BoxAgent) -> None:
        """``client`` is of the service that has the instances, and stays open; all are of ``environment``."""
        self._client = client
        self._environment = environment
        self._settings = settings

    async def start(self) -> None:
        """Raise ConfigError if instances of the environment run no agents."""
        described = (await self._client.environments()).environments
        if not any(each.name == self._environment and each.capabilities.agents for each in described):
            able = ", ".join(each.name for each in described if each.capabilities.agents) or "none"
            raise ConfigError(
                f"agent.kind = box: environment {self._environment!r} runs no agents in its instances;"
                f" environments that do: {able}"
            )

    async def run(self, job: AgentJob) -> None:
        """Run one agent in its instance until it ends; see ``AgentLauncher.run``."""
        started = asyncio.get_running_loop().time()
        running = asyncio.ensure_future(self._run(job))
        try:
            # Shielded: without its request the agent would still run in its box.
            end = await asyncio.shield(running)
            if end.timed_out and end.duration_s >= job.timeout_s * _ALMOST:
                # Its time is over by our own limit, for which the caller cancels it after agent.grace_s.
                await asyncio.get_running_loop().create_future()
            _judge(end, job)
        except asyncio.CancelledError:
            over = asyncio.get_running_loop().time() - started >= job.timeout_s
            await self._end(job, running, over=over)
            raise

    async def close(self) -> None:
        """Do nothing: the agents end with their instances."""

    async def _run(self, job: AgentJob) -> RunAgentResult:
        settings, address = self._settings, urlsplit(job.task.base_url).netloc
        variables = {
            name: value.replace(f"http://{address}", f"http://{_ENDPOINT}")
            for name, value in job.variables().items()
        }
        try:
            return await self._client.run_agent(
                job.instance_id,
                [word.replace(_TASK, job.text) for word in settings.command],
                environment=variables | settings.environment,
                package=settings.package,
                model_endpoint=address,
                timeout_s=job.timeout_s,
            )
        except RequestError as error:
            if error.code in _MISCONFIGURED:
                raise ConfigError(f"agent.kind = box: {error}") from error
            raise AgentLost(f"the service did not run the agent: {error}") from error
        except SandboxError as error:
            raise AgentLost(f"the agent's sandbox failed: {error}") from error

    async def _end(self, job: AgentJob, running: asyncio.Future[RunAgentResult], *, over: bool) -> None:
        """End an agent that was cancelled.

        The service ends it at its time limit, and the instance can be graded. Before that only a release of
        the instance does: whoever cancels early has no use for it.
        """
        if over:
            await asyncio.wait((running,), timeout=_END_S)
        if not running.done():
            with contextlib.suppress(SandboxError):
                await self._client.release_instance(job.instance_id)
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _judge(end: RunAgentResult, job: AgentJob) -> None:
    """Raise what the end of an agent stands for. Raises AgentFailed or AgentLost."""
    unreached = 0 < end.model_connections <= end.failed_model_connections
    if end.exit_code == 0 and not unreached:
        return
    words = (end.stderr.strip() or end.stdout.strip())[-_LAST_WORDS:]
    if end.failed_model_connections:
        raise AgentLost(
            f"the service could not connect the agent to the model at {job.task.base_url}"
            f" ({end.failed_model_connections} of {end.model_connections} connections): {words}"
        )
    if end.timed_out:
        raise AgentFailed(f"the agent was ended after {end.duration_s:.0f} s: {words}")
    raise AgentFailed(f"the agent exited with code {end.exit_code}: {words}")
