"""A policy without a model that says what a test tells it to, to the calls of agents."""

import asyncio
from dataclasses import dataclass, field

from trainer.chat import ChatTokenizer
from trainer.engines.generation import Finish, Generation, GenerationRequest
from trainer.types import VersionSpan


@dataclass
class AgentPolicy:
    """Answers call after call with the next of its lines, and then with its last one.

    A line is a message or a text as the model would write it, or an error to raise.
    """

    chat: ChatTokenizer
    lines: list = field(default_factory=lambda: ["Yes."])
    version: int = 0
    gate: asyncio.Event | None = None
    """Calls wait for it."""
    asked: list[GenerationRequest] = field(default_factory=list)
    sampled: list[Generation] = field(default_factory=list)
    """The calls that returned, without those that were cancelled."""

    async def asked_for(self, calls: int) -> None:
        """Wait until so many calls arrived."""
        async with asyncio.timeout(60):
            while len(self.asked) < calls:  # noqa: ASYNC110 - what it waits for is a list
                await asyncio.sleep(0.001)

    async def generate(self, request: GenerationRequest) -> Generation:
        line = self.lines[min(len(self.asked), len(self.lines) - 1)]
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        else:
            await asyncio.sleep(0)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Generation):
            self.sampled.append(line)
            return line
        turn = self.chat.turn(line)
        ids = tuple(turn[: request.max_tokens])
        finish = Finish.STOP if len(ids) == len(turn) else Finish.LENGTH
        # Different for each call, so that a token with another call's log-probability is found out.
        logprobs = tuple(-(len(self.asked) + place / 1000) for place in range(len(ids)))
        generation = Generation(ids, logprobs, finish, (VersionSpan(0, len(ids), self.version),))
        self.sampled.append(generation)
        return generation
