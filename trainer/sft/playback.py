"""Demonstrations played in real sandboxes: what is imitated is what happened, graded by the environment.

The assistant's messages are given; everything else of the conversation, outputs of programs included, is the
sandbox's own. An episode that broke through no fault of its messages is no demonstration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trainer.config import SamplingConfig
from trainer.errors import DataError, EngineError
from trainer.types import GroupSpec, TaskRef

if TYPE_CHECKING:
    from sandbox_contract.messages import Message
    from trainer.rollout.attempts import PlayedEpisode
    from trainer.types import EpisodeKey, FailureNote, Trajectory

    from .demonstrations import Demonstration


_LONGEST_TURN = 1_000_000
"""Tokens: what is given is never cut, but by the context."""


class Player(Protocol):
    """Plays an episode, again where it makes sense: ``trainer.rollout.attempts.Attempts``."""

    async def play(self, spec: GroupSpec, member: int, sampling: SamplingConfig) -> PlayedEpisode:
        """The episode. Raises ConfigError when the service finds the request wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Demonstrator:
    """Demonstrations and the episodes that they are played in: the i-th is the only member of group i."""

    demonstrations: Sequence[Demonstration]
    environment: str
    seed: int = 0

    def says(self, key: EpisodeKey) -> Message:
        """A turn's message, for a scripted policy. Raises EngineError where the demonstration is over."""
        messages = self.demonstrations[int(key.trajectory_id.partition(".")[0])].messages
        if key.turn >= len(messages):
            raise EngineError(f"the demonstration of {key.task.task_id} has no turn {key.turn}")
        return messages[key.turn]

    def spec(self, index: int) -> GroupSpec:
        """The group of one demonstration: one episode with a turn for each message."""
        demonstration = self.demonstrations[index]
        task = TaskRef(self.environment, "", demonstration.task_id)
        return GroupSpec(index, task, self.seed, 1, len(demonstration.messages))


async def play_demonstrations(demonstrator: Demonstrator, player: Player) -> tuple[Trajectory, ...]:
    """Play all demonstrations, as many at a time as the player does; those with a verdict, in their order.

    The player's policy says what ``demonstrator.says``. Raises DataError when none came to a verdict, with
    what broke; ConfigError when the service finds a request wrong.
    """
    failures: list[FailureNote] = []

    async def play(index: int) -> Trajectory:
        played = await player.play(demonstrator.spec(index), 0, SamplingConfig(max_turn_tokens=_LONGEST_TURN))
        failures.extend(played.failures)
        return played.trajectory

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(play(index)) for index in range(len(demonstrator.demonstrations))]
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    scored = tuple(trajectory for task in running if (trajectory := task.result()).scored)
    if not scored:
        broke = failures[0] if failures else None
        reason = f": {broke.failure_class} ({broke.code}) in {broke.phase}: {broke.detail}" if broke else ""
        raise DataError(f"none of {len(running)} demonstrations could be played{reason}")
    return scored
