"""The base of players of episodes: the service's client, the settings, and the instances of the episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.errors import ConfigError

from .instances import EpisodeInstances
from .progress import ProgressMonitor

if TYPE_CHECKING:
    from sandbox_client import AsyncSandboxClient
    from trainer.chat import ChatTokenizer
    from trainer.config.rollout import RolloutConfig, SandboxServiceConfig
    from trainer.types import GroupSpec


def context_limit(config: RolloutConfig, chat: ChatTokenizer) -> int:
    """Return the greatest number of tokens of a conversation.

    Raises ConfigError if neither the model nor the settings limit it.
    """
    context = config.max_context_tokens or chat.context_tokens
    if context is None:
        raise ConfigError("the model's files name no context length; set rollout.max_context_tokens")
    return context


class BasePlayer:
    """Creates and releases the instances of episodes; how one is played is up to its subclasses.

    Raises ConfigError if neither the model nor the settings limit the length of a conversation.
    """

    def __init__(
        self,
        client: AsyncSandboxClient,
        chat: ChatTokenizer,
        config: RolloutConfig,
        service: SandboxServiceConfig,
        watch: ProgressMonitor | None,
    ) -> None:
        self.context_tokens = context_limit(config, chat)
        """Greatest number of tokens of a conversation."""
        self.client = client
        self.config = config
        self.service = service
        self.watch = watch or ProgressMonitor()
        self.instances = EpisodeInstances(client, service.create_timeout_s, fresh=config.fresh)

    def prepare_instance(self, spec: GroupSpec, member: int) -> None:
        """Start to create the instance of an episode that is played soon."""
        self.instances.prepare_instance(spec, member)

    async def close(self) -> None:
        """Release instances that are not used, and wait for releases in progress."""
        await self.instances.close()
