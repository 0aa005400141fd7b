"""Agents in the boxes of their instances: what the service is asked for, and what its answers stand for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from sandbox_client import AsyncSandboxClient
from sandbox_contract.agents import AgentTask
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode, Problem
from trainer.agents.box import BoxLauncher
from trainer.agents.launcher import AgentJob
from trainer.config.agent import BoxAgent
from trainer.errors import AgentFailed, AgentLost, ConfigError

Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]

_ENDED = {
    "instance_id": "i",
    "exit_code": 0,
    "timed_out": False,
    "stdout": "",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
    "duration_s": 1.0,
    "model_connections": 3,
}
_DESCRIBED = {
    "name": "code",
    "description": "d",
    "splits": [],
    "default_split": "train",
    "action_format": "a",
    "reward_range": [0, 1],
    "max_steps": 1,
}
_CAPABLE = {"fork": True, "files": True, "agent_code": True, "deterministic": False, "many_per_worker": False}


class Service:
    """A service that answers ``run_agent`` as a test says, and notes requests."""

    def __init__(self, **end: Any) -> None:
        self.end = {**_ENDED, **end}
        self.problem: Problem | None = None
        self.agents = True
        self.runs: list[dict[str, Any]] = []
        self.released: list[str] = []
        self.hanging = False
        self.started = asyncio.Event()
        self._ended = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/environments":
            described = {**_DESCRIBED, "capabilities": {**_CAPABLE, "agents": self.agents}}
            return httpx.Response(200, json={"environments": [described]})
        body = json.loads(request.content)
        if request.url.path == "/v1/release_instance":
            self.released.append(body["instance_id"])
            self._ended.set()
            return httpx.Response(200, json={"instance_id": body["instance_id"], "released": True})
        self.runs.append(body)
        self.started.set()
        if self.hanging:
            await self._ended.wait()
        if self.problem is not None:
            return httpx.Response(self.problem.status, json=json.loads(self.problem.model_dump_json()))
        return httpx.Response(200, json=self.end)

    def finish(self) -> None:
        """Answer the run that hangs."""
        self._ended.set()


class _Transport(httpx.AsyncBaseTransport):
    def __init__(self, service: Service) -> None:
        self.handle_async_request = service.handle_async_request  # type: ignore[method-assign]


@asynccontextmanager
async def _launcher(service: Service, **settings: Any) -> AsyncIterator[BoxLauncher]:
    agent = BoxAgent(command=("solve", "{task}"), **settings)
    async with AsyncSandboxClient("http://service", transport=_Transport(service)) as client:
        yield BoxLauncher(client, "code", agent)


def _job(timeout_s: float = 60.0) -> AgentJob:
    task = AgentTask(
        base_url="http://10.0.0.7:9000/v1",
        model="policy",
        episode_url="http://10.0.0.7:9000/episode",
        messages=(Message(role="user", content="Add 1 and 2."),),
    )
    return AgentJob("t", task, "sk-key", "i", timeout_s)


async def test_the_agent_gets_its_task_and_finds_the_model_at_its_endpoint() -> None:
    service = Service()
    async with _launcher(service, package="tool", environment={"MODE": "fast"}) as launcher:
        await launcher.run(_job())
    (run,) = service.runs
    assert (run["instance_id"], run["package"], run["timeout_s"]) == ("i", "tool", 60.0)
    assert run["command"] == ["solve", "Add 1 and 2."]
    assert run["model_endpoint"] == "10.0.0.7:9000"
    variables = run["environment"]
    assert variables["OPENAI_BASE_URL"] == "http://{model_endpoint}/v1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://{model_endpoint}"
    assert (variables["OPENAI_API_KEY"], variables["MODE"]) == ("sk-key", "fast")
    assert not any("10.0.0.7" in value for value in variables.values())


async def test_an_agent_that_exits_with_an_error_has_failed_and_its_last_words_are_kept() -> None:
    service = Service(exit_code=3, stderr="Traceback: no such thing")
    async with _launcher(service) as launcher:
        with pytest.raises(AgentFailed, match=r"code 3: Traceback: no such thing") as failed:
            await launcher.run(_job())
    assert not isinstance(failed.value, AgentLost)


async def test_an_agent_that_could_not_be_connected_to_the_model_is_lost() -> None:
    service = Service(exit_code=1, failed_model_connections=2)
    async with _launcher(service) as launcher:
        with pytest.raises(AgentLost, match=r"2 of 3 connections"):
            await launcher.run(_job())


async def test_an_agent_that_ends_well_is_not_lost_for_a_connection() -> None:
    service = Service(failed_model_connections=1)
    async with _launcher(service) as launcher:
        await launcher.run(_job())


async def test_an_agent_that_ends_well_without_any_connection_to_the_model_is_lost() -> None:
    service = Service(failed_model_connections=3)
    async with _launcher(service) as launcher:
        with pytest.raises(AgentLost, match=r"3 of 3 connections"):
            await launcher.run(_job())


async def test_an_agent_that_the_service_ended_at_its_own_limit_has_failed() -> None:
    service = Service(exit_code=None, timed_out=True, duration_s=30.0)
    async with _launcher(service) as launcher:
        with pytest.raises(AgentFailed, match="ended after 30 s"):
            await launcher.run(_job())


@pytest.mark.parametrize(
    "code", [ErrorCode.INSTANCE_LOST, ErrorCode.INSTANCE_EXPIRED, ErrorCode.STEP_TIMEOUT]
)
async def test_an_agent_is_lost_with_its_instance(code: ErrorCode) -> None:
    service = Service()
    service.problem = Problem.of(code)
    async with _launcher(service) as launcher:
        with pytest.raises(AgentLost):
            await launcher.run(_job())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.AGENTS_UNSUPPORTED,
        ErrorCode.UNKNOWN_AGENT_PACKAGE,
        ErrorCode.MODEL_ENDPOINT_FORBIDDEN,
        ErrorCode.MODEL_ENDPOINT_UNSUPPORTED,
    ],
)
async def test_what_every_episode_would_meet_is_a_mistake_of_the_configuration(code: ErrorCode) -> None:
    service = Service()
    service.problem = Problem.of(code)
    async with _launcher(service) as launcher:
        with pytest.raises(ConfigError, match=r"agent\.kind = box"):
            await launcher.run(_job())


async def test_an_environment_that_runs_no_agents_is_refused_before_the_first_episode() -> None:
    service = Service()
    async with _launcher(service) as launcher:
        await launcher.start()
        service.agents = False
        with pytest.raises(ConfigError, match="'code' runs no agents"):
            await launcher.start()


async def test_a_cancellation_before_its_time_ends_the_agent_with_its_instance() -> None:
    service = Service()
    service.hanging = True
    async with _launcher(service) as launcher:
        running = asyncio.create_task(launcher.run(_job()))
        await service.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert service.released == ["i"]


async def test_a_cancellation_at_its_time_leaves_the_instance_to_be_graded() -> None:
    service = Service(exit_code=None, timed_out=True)
    service.hanging = True
    async with _launcher(service) as launcher:
        running = asyncio.create_task(launcher.run(_job(timeout_s=1e-9)))
        await service.started.wait()
        running.cancel()
        await asyncio.sleep(0)
        service.finish()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert service.released == []


async def test_an_agent_at_its_time_limit_is_cancelled_by_its_caller_and_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    service = Service(exit_code=None, timed_out=True, duration_s=60.0)
    async with _launcher(service) as launcher:
        running = asyncio.create_task(launcher.run(_job(timeout_s=60.0)))
        await service.started.wait()
        for now in (loop.time(), loop.time() + 3600):  # however long agent.grace_s is
            monkeypatch.setattr(loop, "time", lambda now=now: now)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert service.released == []
