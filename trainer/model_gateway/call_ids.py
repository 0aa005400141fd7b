"""Ids of answers and of tool calls in them.

Agents see ids that are unique among all sessions. Prompts have short numbers instead, which all chat
templates take, and which are the same whenever an episode is played again. Agents send an answer with the id
of its call alone; the name of the tool that answers is filled in, since some chat templates print it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.tool_answers import named

if TYPE_CHECKING:
    from sandbox_contract.messages import Message

    from .calls import ModelCall


class CallIds:
    """The ids of one session, whose own id is a prefix of them."""

    def __init__(self, session_id: str) -> None:
        self._prefix = session_id
        self._tool_calls = 0
        self._names: dict[str, str] = {}
        """The called tools, by the numbers of their calls."""

    def of_answer(self, number: int) -> str:
        """Return the id of the answer to a call."""
        return f"{self._prefix}{number:06d}"

    def number(self, message: Message) -> Message:
        """Return a sampled message with the next numbers for its tool calls."""
        calls = tuple(
            call.model_copy(update={"id": f"{self._tool_calls + place:09d}"})
            for place, call in enumerate(message.tool_calls or ())
        )
        self._tool_calls += len(calls)
        self._names |= {call.id: call.function.name for call in calls if call.id}
        return message.model_copy(update={"tool_calls": calls}) if calls else message

    def outer(self, message: Message) -> Message:
        """Return a numbered message as the agent is shown it."""
        calls = tuple(
            call.model_copy(update={"id": f"{self._prefix}{call.id}"}) for call in message.tool_calls or ()
        )
        return message.model_copy(update={"tool_calls": calls}) if calls else message

    def inner(self, call: ModelCall) -> ModelCall:
        """Return a call of the agent with the numbers of its tool calls, and the names of tools that answer.

        Foreign ids stay as they are.
        """
        if not any(message.tool_calls or message.tool_call_id for message in call.messages):
            return call
        messages = [self._inner(message) for message in call.messages]
        return replace(call, messages=tuple(named(messages, self._names)))

    def _inner(self, message: Message) -> Message:
        if message.tool_call_id:
            return message.model_copy(
                update={"tool_call_id": message.tool_call_id.removeprefix(self._prefix)}
            )
        if not message.tool_calls:
            return message
        calls = tuple(
            call.model_copy(update={"id": call.id.removeprefix(self._prefix)}) if call.id else call
            for call in message.tool_calls
        )
        return message.model_copy(update={"tool_calls": calls})
