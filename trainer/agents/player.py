"""Play episodes with agents that have a loop of their own.

An agent calls the model at the gateway, which records its tokens, and steps its instance through the
trainer. The episode is graded when the agent has ended, however it ended: only a failure of the
infrastructure, or an agent that the model never answered, leaves it without a grade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.engines.generation import Sampling
from trainer.errors import ConfigError
from trainer.model_gateway.budget import SessionLimits
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.server import MODEL, ModelGateway, ServerSettings
from trainer.model_gateway.sessions import Sessions
from trainer.rollout.attempt import EpisodeAttempt
from trainer.rollout.base_player import BasePlayer
from trainer.rollout.episode import checked_for_drift

from .agent_run import AgentRun
from .episode_routes import EpisodeRoutes
from .watched_policy import WatchedPolicy

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config.agent import AgentConfig
    from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
    from trainer.engines.generation import Policy
    from trainer.model_gateway.session import Session
    from trainer.rollout.progress import ProgressMonitor
    from trainer.types import GroupSpec, Trajectory

    from .launcher import AgentLauncher

ANY_MODEL = "*"
"""The name that stands for every model."""


class AgentPlayer(BasePlayer):
    """Plays episodes with agents, concurrently."""

    def __init__(
        self,
        agent: AgentConfig,
        launcher: AgentLauncher,
        client: AsyncSandboxClient,
        policy: Policy,
        chat: ChatTokenizer,
        config: RolloutConfig,
        service: SandboxServiceConfig,
        watch: ProgressMonitor | None = None,
    ) -> None:
        super().__init__(client, policy, chat, config, service, watch)
        self.agent = agent
        self.launcher = launcher
        self.model = MODEL if agent.model_name == ANY_MODEL else agent.model_name
        """The name that agents call the model by."""
        self.routes = EpisodeRoutes()
        self.gateway = ModelGateway(
            Sessions(WatchedPolicy(policy, self.watch), chat),
            ServerSettings(model=self.model, any_model=agent.model_name == ANY_MODEL),
            extra_routes=self.routes.list_routes(),
        )

    async def start(self) -> None:
        """Open the gateway, and get ready to run agents. Raises ConfigError for one that cannot be run."""
        try:
            await self._open_gateway()
            await self.launcher.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End all agents, close the gateway, and then as any player."""
        await self.launcher.close()
        await self.gateway.close()
        await super().close()

    async def play_episode(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> Trajectory:
        """Play one episode in a fresh instance. Raises ConfigError if the settings do not suit the agent."""
        attempt = EpisodeAttempt(self, spec, member, sampling)
        return await attempt.run(AgentRun(self, attempt))

    def open_session(self, attempt: EpisodeAttempt) -> Session:
        """Open an episode's session at the model."""
        spec, key, sampling = attempt.spec, attempt.key, attempt.sampling
        limits = SessionLimits(
            turns=self.agent.max_calls or spec.max_turns,
            context_tokens=self.context_tokens,
            turn_tokens=sampling.max_turn_tokens,
            sampled_tokens=self.agent.sampled_tokens,
            seconds=self.timeout_s,
            turn_seconds=self.config.generate_timeout_s,
            concurrent_calls=self.agent.concurrent_calls,
        )
        return self.gateway.sessions.open(
            key,
            Sampling(temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k),
            limits,
            prompts=PromptPolicy(self.agent.prompts),
            checks=lambda turn: checked_for_drift(spec, key.seed, turn, self.config),
        )

    async def _open_gateway(self) -> None:
        host = self.agent.gateway_host if self.agent.kind in ("remote", "box") else "127.0.0.1"
        try:
            await self.gateway.start(host)
        except OSError as error:
            raise ConfigError(f"agent.gateway_host: the model cannot be served at {host}: {error}") from error

    @property
    def timeout_s(self) -> float:
        """Time limit of an agent in seconds."""
        return self.agent.timeout_s or self.config.episode_timeout_s
