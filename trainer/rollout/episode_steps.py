"""Take the steps of one episode, each in a phase of its own, and ask the counterpart between them.

Policies read text. Pictures that an environment shows are left out here, since its text is complete without
them, and the log says so once.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import TYPE_CHECKING

from sandbox_client import CounterpartFailed, CounterpartTurns
from trainer.types import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_client import AsyncEpisode
    from sandbox_contract.episodes import Observation, StepResult
    from sandbox_contract.messages import Message
    from trainer.types import Segment

    from .counterparts import EpisodeCounterpart
    from .phases import EpisodePhases


logger = logging.getLogger(__name__)


class EpisodeSteps:
    """The steps of one episode."""

    def __init__(
        self,
        episode: AsyncEpisode,
        phases: EpisodePhases,
        counterpart: EpisodeCounterpart | None,
        *,
        timeout_s: float,
        grace_s: float,
    ) -> None:
        """``timeout_s`` is the limit of a step; ``grace_s`` is added for the network, queues and retries."""
        self._episode = episode
        self._phases = phases
        self._counterpart = counterpart
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        asked = None if counterpart is None else _Phased(counterpart, phases, grace_s)
        self._turns = CounterpartTurns(self._take, asked)
        self.took_s = 0.0
        """Seconds of the last step in the sandbox, those of the counterpart's steps included."""
        self.taken = False
        """Whether the instance has taken the agent's last message."""

    async def open(self) -> Observation | None:
        """Return the agent's first observation; None if an opponent that is trained has ended the episode.

        That is how it learns from a game that it loses before the agent's first turn. Any other counterpart
        has then failed. Raises SandboxError, EngineError, Stalled.
        """
        try:
            opening = await self._turns.open(self._episode.observation, self._episode.info)
        except CounterpartFailed:
            ended, counterpart = self._turns.ended, self._counterpart
            if ended is None or not ended.terminated or counterpart is None or not counterpart.opponent:
                raise
            return None
        return self._in_words(opening)

    async def step(self, message: Message) -> StepResult:
        """Take a step of the agent, and the counterpart's behind it.

        Raises SandboxError, EngineError, Stalled.
        """
        self.took_s, self.taken = 0.0, False
        result = await self._turns.step(message)
        words = self._in_words(result.observation)
        return result if words is result.observation else result.model_copy(update={"observation": words})

    async def close(self) -> tuple[Segment, ...]:
        """End the counterpart; return what is to be trained of it."""
        return () if self._counterpart is None else await self._counterpart.close()

    def lines(self) -> tuple[Line, ...]:
        """Return the counterpart's conversation, for readers."""
        return tuple(Line(f"counterpart: {each.role}", each.content or "") for each in self._turns.messages)

    def _in_words(self, observation: Observation) -> Observation:
        """Return an observation without pictures."""
        if not any(message.images for message in observation.messages):
            return observation
        _note_pictures(self._episode.environment)
        words = tuple(message.model_copy(update={"images": None}) for message in observation.messages)
        return observation.model_copy(update={"messages": words})

    async def _take(self, message: Message) -> StepResult:
        call = self._episode.step(message, timeout_s=self._timeout_s)
        try:
            result = await self._phases.within("step", self._timeout_s + self._grace_s, call)
        finally:
            self.took_s += self._phases.took_s
        self.taken = True
        return result


@cache
def _note_pictures(environment: str) -> None:
    logger.warning("%s shows pictures; the policy reads text, and gets its observations without", environment)


class _Phased:
    """Asks a counterpart in a phase of its own."""

    def __init__(self, counterpart: EpisodeCounterpart, phases: EpisodePhases, grace_s: float) -> None:
        self._counterpart = counterpart
        self._ask = partial(phases.within, "counterpart", counterpart.timeout_s + 2 * grace_s)

    async def write_reply(self, messages: Sequence[Message]) -> Message:
        return await self._ask(self._counterpart.write_reply(messages))
