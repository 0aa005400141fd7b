"""Repeat a recorded episode in an instance: its actions are taken again, and the answers must be the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_client.counterparts import awaited
from sandbox_contract.frames import begins_session
from trainer.errors import LabelFailed
from trainer.rollout.step_results import changed_tools

if TYPE_CHECKING:
    from sandbox_client import AsyncEpisode, AsyncSandboxClient
    from sandbox_contract.episodes import StepResult
    from sandbox_contract.messages import Message, Tool
    from trainer.recorded.types import RecordedEpisode

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One of the assistant's messages, and the messages that answered it."""

    number: int
    """Counted from 0."""
    message: Message
    answer: tuple[Message, ...]
    last: bool


def turns_of(episode: RecordedEpisode) -> tuple[RecordedTurn, ...]:
    """Return the turns of an episode in order."""
    messages = episode.messages
    places = [place for place, message in enumerate(messages) if message.role == "assistant"]
    ends = [*places[1:], len(messages)]
    return tuple(
        RecordedTurn(number, messages[place], messages[place + 1 : end], place == places[-1])
        for number, (place, end) in enumerate(zip(places, ends, strict=True))
    )


class RepeatedEpisode:
    """A recorded episode that is repeated in a live instance."""

    def __init__(self, recorded: RecordedEpisode, instance: AsyncEpisode) -> None:
        """Raises LabelFailed where the instance, which was just created, begins otherwise."""
        self.recorded = recorded
        self.instance = instance
        self.tools: Sequence[Tool] = instance.tools
        """The tools that the policy has now."""
        played = replace(recorded, messages=(*recorded.earlier, *recorded.messages), earlier=())
        self.earlier = sum(message.role == "assistant" for message in recorded.earlier)
        """The assistant's messages in sessions before the recorded one."""
        opening = instance.observation.messages
        self.said: Sequence[Message] = opening
        """The conversation so far, as the environment shows it now."""
        self._check("opening", opening, _before_turn(played.messages, len(opening)))
        self.examples = sum(message.role == "assistant" for message in opening)
        """The assistant's messages in the opening, which are no steps."""
        self.turns = turns_of(played)[self.examples :]
        """The turns to repeat, those of earlier sessions included."""

    async def take_step(self, turn: RecordedTurn) -> None:
        """Take the next recorded step. Raises LabelFailed where it is answered otherwise; SandboxError."""
        if self.instance.finished:
            raise self._differs(f"the environment ended the episode before turn {turn.number}")
        result = await self.instance.step(turn.message)
        if awaited(result.info) is not None:
            raise LabelFailed(
                f"{self.recorded.origin}: the environment waits for a counterpart, which repeating lacks",
                "request",
            )
        # Some recordings leave out what the environment says at the end.
        if turn.answer or not turn.last:
            self._check(f"answer to turn {turn.number}", result.observation.messages, turn.answer)
        self.said = conversation_after(self.said, turn.message, result)
        self.tools = tools_after(self.tools, result)

    def _check(self, place: str, got: Sequence[Message], recorded: Sequence[Message]) -> None:
        pairs = [[(each.role, each.content or "") for each in side] for side in (got, recorded)]
        if pairs[0] != pairs[1]:
            now, then = (" ".join(text for _, text in side)[:_SHOWN] for side in pairs)
            raise self._differs(f"the {place} is {now!r}, and was {then!r}")

    def _differs(self, how: str) -> LabelFailed:
        return LabelFailed(f"{self.recorded.origin}: the episode does not repeat: {how}", "replay")


def conversation_after(said: Sequence[Message], turn: Message, result: StepResult) -> Sequence[Message]:
    """Return the conversation after a step, which may have begun another one."""
    answer = result.observation.messages
    return answer if begins_session(result.info) else (*said, turn, *answer)


def tools_after(tools: Sequence[Tool], result: StepResult) -> Sequence[Tool]:
    """Return the tools after a step, which may have changed them. Raises InvalidResponse."""
    changed = changed_tools(result)
    return tools if changed is None else changed


def _before_turn(messages: Sequence[Message], least: int) -> Sequence[Message]:
    """Return the messages before the assistant's first that has at least so many before it."""
    places = (place for place in range(least, len(messages)) if messages[place].role == "assistant")
    return messages[: next(places, len(messages))]


def open_instance(client: AsyncSandboxClient, episode: RecordedEpisode) -> AsyncEpisode:
    """Return an instance of the episode's task, with its seed and parameters, that is yet to be created."""
    return client.episode(
        episode.environment, episode.task_id, seed=episode.seed, params=dict(episode.params) or None
    )
