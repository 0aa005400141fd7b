"""One episode behind another framework's protocol: its start, steps, final reward and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .conversation import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from pydantic import JsonValue

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_client.episodes import AsyncEpisode
    from sandbox_contract.base import JsonObject
    from sandbox_contract.episodes import EvaluateResult
    from sandbox_contract.messages import Message

    RewardedBy: TypeAlias = Literal["evaluation", "steps"]


@dataclass(frozen=True)
class ServedTurn:
    """The answer to a step, with the reward that the other framework learns from."""

    text: str
    """The observation as a text."""
    messages: tuple[Message, ...]
    """The observation."""
    reward: float
    """0 before the end if the evaluation is the reward; then the score."""
    terminated: bool
    """The episode reached an end of its own."""
    truncated: bool
    """The episode was cut off by a limit."""
    evaluation: EvaluateResult | None
    """The verdict, after the last step."""

    @property
    def done(self) -> bool:
        """Whether this was the last step."""
        return self.terminated or self.truncated


class ServedEpisode:
    """An episode that is created by ``start`` and released by ``end``, whatever happened in between."""

    def __init__(self, episode: AsyncEpisode, rewarded_by: RewardedBy) -> None:
        self.episode = episode
        self._rewarded_by = rewarded_by
        self._evaluation: EvaluateResult | None = None

    @classmethod
    async def start(
        cls,
        client: AsyncSandboxClient,
        environment: str,
        task_id: str,
        *,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        rewarded_by: RewardedBy = "evaluation",
    ) -> ServedEpisode:
        """Create an instance of a task. Raises SandboxError."""
        episode = client.episode(environment, task_id, seed=seed, params=params)
        return cls(await episode.__aenter__(), rewarded_by)

    async def step(self, message: Message) -> ServedTurn:
        """Take a step, and evaluate the episode if it was the last one. Raises SandboxError."""
        result = await self.episode.step(message)
        reward = result.reward if self._rewarded_by == "steps" else 0.0
        evaluation = await self.evaluate() if self.episode.finished else None
        if evaluation is not None and self._rewarded_by == "evaluation":
            reward = evaluation.score
        messages = result.observation.messages
        return ServedTurn(
            text_of(messages), messages, reward, result.terminated, result.truncated, evaluation
        )

    async def evaluate(self) -> EvaluateResult:
        """Return the verdict on the episode, which a finished one gets once. Raises SandboxError."""
        if self._evaluation is not None:
            return self._evaluation
        verdict = await self.episode.evaluate()
        if self.episode.finished:
            self._evaluation = verdict
        return verdict

    async def end(self) -> None:
        """Release the instance."""
        await self.episode.release()


def dumped(messages: tuple[Message, ...]) -> list[JsonObject]:
    """Return messages as JSON objects without empty fields."""
    return [message.model_dump(exclude_none=True) for message in messages]
