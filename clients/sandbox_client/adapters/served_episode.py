"""One episode behind another framework's protocol: its start, steps, final reward and end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_client.counterparts import refuse_counterpart
from sandbox_client.errors import CounterpartFailed, RequestError, SandboxError
from sandbox_contract.frames import begins_session, tools_of

from .conversation import text_of
from .refusals import UnplayableError, refuse_session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from pydantic import JsonValue

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_client.episodes import AsyncEpisode
    from sandbox_contract.episodes import EvaluateResult, StepResult
    from sandbox_contract.messages import Message, Tool

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
    new_session: bool
    """The observation begins a conversation without the history."""
    tools: tuple[Tool, ...] | None
    """The tools from now on, where they change."""

    @property
    def done(self) -> bool:
        """Whether this was the last step."""
        return self.terminated or self.truncated


class EpisodeOverError(Exception):
    """A step was asked of an episode that has ended."""


class ServedEpisode:
    """An episode that is created by ``start`` and released by ``end``, whatever happened in between.

    Calls wait for each other, since frameworks make some at once and an instance takes one at a time. An
    episode in which the service failed once has no reward any more: ``evaluate`` raises the failure again,
    because a framework may have shown it to the model as the answer of a tool. Neither has one with a second
    session, unless ``sessions`` says that the framework gets to know of it.
    """

    def __init__(self, episode: AsyncEpisode, rewarded_by: RewardedBy, *, sessions: bool) -> None:
        self.episode = episode
        self._rewarded_by = rewarded_by
        self._sessions = sessions
        self._evaluation: EvaluateResult | None = None
        self._failure: SandboxError | None = None
        self._lock = asyncio.Lock()

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
        sessions: bool = False,
    ) -> ServedEpisode:
        """Create an instance of a task.

        Raises SandboxError; CounterpartFailed if a model would have to play its counterpart.
        """
        episode = await client.episode(environment, task_id, seed=seed, params=params).__aenter__()
        try:
            refuse_counterpart(episode.info)
        except CounterpartFailed:
            await episode.release()
            raise
        return cls(episode, rewarded_by, sessions=sessions)

    async def step(self, message: Message) -> ServedTurn:
        """Take a step, and evaluate the episode if it was the last one.

        Raises SandboxError, and EpisodeOverError after the last step. CounterpartFailed comes again at each
        further step, which the instance would take for the counterpart's message, and so does the
        UnplayableError of a second session.
        """
        async with self._lock:
            if self.episode.finished:
                raise EpisodeOverError
            if isinstance(self._failure, CounterpartFailed | UnplayableError):
                raise self._failure
            result = await self._step(message)
            reward = result.reward if self._rewarded_by == "steps" else 0.0
            ended = result.terminated or result.truncated
            evaluation = await self._evaluate() if ended else None
        if evaluation is not None and self._rewarded_by == "evaluation":
            reward = evaluation.score
        messages = result.observation.messages
        return ServedTurn(
            text_of(messages),
            messages,
            reward,
            result.terminated,
            result.truncated,
            evaluation,
            begins_session(result.info),
            tools_of(result.info),
        )

    async def _step(self, message: Message) -> StepResult:
        """Take a step, and keep a failure after which the episode has no reward."""
        try:
            result = await self.episode.step(message)
            refuse_counterpart(result.info)
            if not self._sessions:
                refuse_session(result.info)
        except RequestError:
            raise
        except SandboxError as error:
            self._failure = error
            raise
        return result

    async def evaluate(self) -> EvaluateResult:
        """Return the verdict on the episode, which a finished one gets once. Raises SandboxError."""
        async with self._lock:
            return await self._evaluate()

    async def _evaluate(self) -> EvaluateResult:
        if self._failure is not None:
            raise self._failure
        if self._evaluation is not None:
            return self._evaluation
        verdict = await self.episode.evaluate()
        if self.episode.finished:
            self._evaluation = verdict
        return verdict

    async def end(self) -> None:
        """Release the instance."""
        await self.episode.release()
