"""A taskset of verifiers whose tasks are those of a served environment.

    vf-eval sandbox-taskset --env.taskset.environment code --env.taskset.split train

The environment is the user of verifiers' interaction: its observations are the user's turns, and each reply
of the model is a step, in the notation that the environment reads in plain text. The trace gets the score as
its reward. An episode in which the service or the model failed has an error and no reward.

``sandbox_taskset`` exports the classes under a name that verifiers' loader finds: it takes a top-level
package, not a module of one. Source: ``verifiers.v1.utils.loaders`` and the taskset ``openenv`` of verifiers
0.4.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import verifiers.v1 as vf
from pydantic import Field, JsonValue
from verifiers.v1.runtimes import SubprocessConfig

from sandbox_client.async_client import AsyncSandboxClient
from sandbox_client.sync_client import SandboxClient
from sandbox_contract.tool_prompt import tool_prompt

from .conversation import assistant_message, text_of
from .served_episode import ServedEpisode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_client.episodes import AsyncEpisode


class SandboxTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """The service, its environment and the split of tasks."""

    base_url: str = "http://127.0.0.1:8080"
    """Address of the service."""
    api_key_variable: str = "SANDBOX_API_KEY"
    """Environment variable with the service's key, if it needs one."""
    environment: str = "code"
    """Name of the environment; verifiers needs a default before it reads the command line."""
    split: str | None = None
    """Split of the tasks; the environment's default split without one."""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Parameters of the environment, for each instance."""
    describe_tools: bool = True
    """Describe the tools in the system prompt; some environments' own prompts do."""


class SandboxTaskData(vf.TaskData):  # type: ignore[misc]
    """One task; ``id`` is the service's task id."""

    environment: str
    params: dict[str, JsonValue]


class SandboxTask(vf.Task[SandboxTaskData]):  # type: ignore[misc]
    """A task without hooks: the service prepares and grades it."""


class SandboxTaskset(vf.Taskset[SandboxTask, SandboxTasksetConfig]):  # type: ignore[misc]
    """The tasks of a split."""

    def load(self) -> Iterator[SandboxTask]:
        """Yield the tasks in the service's order. Raises SandboxError."""
        config = self.config
        with SandboxClient(config.base_url, _api_key(config)) as client:
            profile = client.get_env_profile(config.environment, config.split)
        for task_id in profile.task_ids:
            name = f"{config.environment}/{task_id}"
            data = SandboxTaskData(
                id=task_id, name=name, environment=config.environment, params=config.params
            )
            yield SandboxTask(data, config.task)


class SandboxEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """The player's model; by default it runs no programs of its own and starts no container."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=SubprocessConfig())


class SandboxEpisodes(vf.Env[SandboxEnvConfig]):  # type: ignore[misc]
    """Plays a task's episode with the player."""

    _client: AsyncSandboxClient | None = None

    async def start(self) -> None:
        """Open the client of all episodes."""
        config = self.taskset.config
        self._client = await AsyncSandboxClient(config.base_url, _api_key(config)).__aenter__()

    async def stop(self) -> None:
        """Close the client."""
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
            self._client = None

    async def run(self, task: SandboxTask, agents: vf.Agents) -> None:
        """Play one episode and record its score. Raises SandboxError, which verifiers records."""
        if self._client is None:
            raise RuntimeError("the environment was not started: verifiers calls start() before run()")
        data = task.data
        served = await ServedEpisode.start(self._client, data.environment, data.id, params=data.params)
        try:
            system, observation = opening_of(
                served.episode, describe_tools=self.taskset.config.describe_tools
            )
            if data.system_prompt is None and system:
                task = task.with_system_prompt(system)
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn(observation)
                while not segment.terminated:
                    turn = await served.step(assistant_message(segment.last_reply))
                    if turn.done:
                        break
                    segment = await interaction.turn(turn.text)
            trace = interaction.trace
            # A model that did not answer has played no episode that could be graded.
            if not trace.errors:
                verdict = await served.evaluate()
                trace.record_reward("score", verdict.score)
                trace.record_metric("success", float(verdict.success))
        finally:
            await served.end()


def opening_of(episode: AsyncEpisode, *, describe_tools: bool) -> tuple[str, str]:
    """Return the system prompt of an episode, if asked with its tools, and the first turn of the user."""
    messages = episode.observation.messages
    system = [text_of(message for message in messages if message.role == "system")]
    if describe_tools and episode.tools:
        system.append(tool_prompt([tool.model_dump(mode="json") for tool in episode.tools]))
    return "\n\n".join(filter(None, system)), text_of(each for each in messages if each.role != "system")


def _api_key(config: SandboxTasksetConfig) -> str | None:
    return os.environ.get(config.api_key_variable) or None
