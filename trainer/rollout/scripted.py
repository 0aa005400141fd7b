"""A policy without a model: messages from a script, with simulated latencies if wanted.

For tests, demonstrations, and load on a fleet of sandboxes. Log-probabilities are random and finite.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from trainer.engines.generation import Finish, Generation
from trainer.errors import EngineError
from trainer.types import VersionSpan

if TYPE_CHECKING:
    from sandbox_contract.messages import Message
    from trainer.chat import ChatTokenizer
    from trainer.engines.generation import GenerationRequest
    from trainer.types import EpisodeKey


Script: TypeAlias = "Mapping[str, Sequence[Message | str]] | Callable[[EpisodeKey], Message | str]"
"""Messages by task id, one per turn; or a function from episode and turn to a message."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that a turn takes: log-normal, so that a few take much longer than most."""

    median_s: float
    sigma: float = 1.0
    """Of the logarithm; at 1, one turn in a hundred takes ten times the median."""
    most_s: float = math.inf

    def seconds(self, dice: random.Random) -> float:
        """Return a random latency."""
        return min(self.most_s, self.median_s * math.exp(self.sigma * dice.gauss(0.0, 1.0)))


class ScriptedPolicy:
    """Samples the messages of a script. Random numbers depend on seed and request only, not on order."""

    def __init__(
        self,
        script: Script,
        chat: ChatTokenizer,
        *,
        latency: Latency | None = None,
        seed: int = 0,
        version: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.version = version
        """Weight version of all turns."""
        self._script = script
        self._chat = chat
        self._latency = latency
        self._seed = seed
        self._sleep = sleep

    async def generate(self, request: GenerationRequest) -> Generation:
        """Return the turn's message, cut at ``max_tokens``. Raises EngineError if the script has none."""
        key = request.key
        turn = self._chat.turn(self._line(key), request.token_ids)
        dice = random.Random(f"{self._seed} {key.trajectory_id} {key.seed} {key.turn}")
        seconds = self._latency.seconds(dice) if self._latency is not None else 0.0
        limit_s = math.inf if request.limit_s is None else request.limit_s
        if seconds:
            await self._sleep(min(seconds, limit_s))
        token_ids = tuple(turn[: request.max_tokens])
        finish = Finish.STOP if len(token_ids) == len(turn) else Finish.LENGTH
        if seconds > limit_s:
            token_ids, finish = token_ids[: max(1, int(len(turn) * limit_s / seconds))], Finish.TIMEOUT
        return Generation(
            token_ids=token_ids,
            logprobs=tuple(-dice.random() for _ in token_ids),
            finish=finish,
            versions=(VersionSpan(0, len(token_ids), self.version),),
        )

    def _line(self, key: EpisodeKey) -> Message | str:
        if callable(self._script):
            return self._script(key)
        lines = self._script.get(key.task.task_id, ())
        if key.turn >= len(lines):
            raise EngineError(f"the script of {key.task.task_id} has no line for turn {key.turn}")
        return lines[key.turn]
