"""Join answers of tools with the calls that they answer.

An agent's tool message has the id of a call alone, but some chat templates print the tool's name, or an id
that contains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.messages import Message


def named(messages: Sequence[Message], known: Mapping[str, str] | None = None) -> list[Message]:
    """Return the messages with the names of the tools that answer.

    ``known`` are names of tools by the ids of their calls, for calls that are not in the messages.
    """
    names = dict(known or {})
    made: list[Message] = []
    for message in messages:
        names |= {call.id: call.function.name for call in message.tool_calls or () if call.id}
        name = names.get(message.tool_call_id or "")
        if message.role == "tool" and name and not message.name:
            message = message.model_copy(update={"name": name})
        made.append(message)
    return made


def numbered(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with calls numbered as in an episode, and answers with number and name.

    An answer without an id belongs to the first call before it that has no answer yet.
    """
    numbers: dict[str, str] = {}
    waiting: list[str] = []
    count = 0
    made: list[Message] = []
    for message in messages:
        if message.tool_calls:
            waiting = [f"{count + place:09d}" for place in range(len(message.tool_calls))]
            count += len(waiting)
            pairs = list(zip(message.tool_calls, waiting, strict=True))
            numbers |= {call.id: number for call, number in pairs if call.id}
            calls = tuple(call.model_copy(update={"id": number}) for call, number in pairs)
            message = message.model_copy(update={"tool_calls": calls})
        elif message.role == "tool":
            given = message.tool_call_id
            number = numbers.get(given) if given else next(iter(waiting), None)
            if number in waiting:
                waiting.remove(number)
            message = message.model_copy(update={"tool_call_id": number or given})
        made.append(message)
    return named(made)
