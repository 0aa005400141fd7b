"""Rows of AgentTraj and ShareGPT files, of steps with thought, action and observation, and of a prompt with
its completion.

AgentTraj-L (AgentGym, Xi et al. 2024, arXiv:2406.04151) has rows of ``item_id`` and ``conversations``; each
entry has ``from``, ``value`` and ``loss``, and an entry whose ``loss`` is false is not trained on. ShareGPT
files are the same without ``loss``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field, JsonValue

from .bad_rows import RowError
from .fields import (
    ClosedRow,
    Id,
    Messages,
    Text,
    Tools,
    as_messages,
    check_conversation,
    is_empty,
    untrained_turns,
    validated,
)
from .function_calls import NumberedCalls
from .types import LabelledCompletion, RecordedEpisode

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.messages import Message

    from .types import RowOrigin

_CALLS = "function_call"
_ROLES: Mapping[str, str] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    _CALLS: "assistant",
    "system": "system",
    "developer": "system",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
}
"""Roles of chat messages by the names that files of conversations give them."""


_AUTHORS: Mapping[str, str] = {
    "system": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}


class ConversationEntry(ClosedRow):
    """One entry of a conversation."""

    author: str = Field(validation_alias=AliasChoices("from", "role"))
    value: str = Field(validation_alias=AliasChoices("value", "content"))
    loss: bool | None = None


class ConversationRow(ClosedRow):
    """A conversation, with its result where the file has one."""

    conversations: tuple[ConversationEntry, ...] = Field(min_length=1)
    item_id: str | int | None = None
    id: str | int | None = None
    system: Text = ""
    tools: Tools = ()
    reward: float | None = None
    success: bool | None = None


def read_conversation_row(row: JsonObject, origin: RowOrigin) -> tuple[RecordedEpisode, ...]:
    """Return the episode of an AgentTraj or ShareGPT row. Raises RowError."""
    read = validated(ConversationRow, row)
    messages = [*as_messages(read.system, "system")] if read.system else []
    skipped: set[int] = set()
    calls = NumberedCalls()
    for number, entry in enumerate(read.conversations):
        try:
            message = _message_of(entry, calls)
        except RowError as error:
            raise RowError(f"conversations.{number}.{error}") from None
        if message.role == "assistant" and entry.loss is False:
            skipped.add(len(messages))
        messages.append(message)
    check_conversation(messages)
    task = read.item_id if read.item_id is not None else read.id
    episode = RecordedEpisode(
        messages=tuple(messages),
        origin=origin,
        task_id="" if task is None else str(task),
        tools=read.tools,
        score=read.reward,
        success=read.success,
        skipped=frozenset(skipped),
    )
    return (episode,)


def _message_of(entry: ConversationEntry, calls: NumberedCalls) -> Message:
    """Return the message of an entry. Raises RowError."""
    author = entry.author.lower()
    role = _ROLES.get(author)
    if role is None:
        raise RowError(f"from: unknown author {entry.author!r}; known ones are {', '.join(_ROLES)}")
    if role == "tool":
        return calls.observed(entry.value)
    if author == _CALLS:
        try:
            return calls.called(entry.value)
        except RowError as error:
            raise RowError(f"value: of a {_CALLS}: {error}") from None
    calls.said()
    (message,) = as_messages(entry.value, role)
    return message


def conversation_row(episode: RecordedEpisode) -> JsonObject:
    """Return an AgentTraj row. Tool calls become the text of their JSON, since such files have none."""
    entries: list[JsonValue] = []
    for place, message in enumerate(episode.messages):
        calls = [call.function.model_dump_json() for call in message.tool_calls or ()]
        loss = place not in episode.skipped if message.role == "assistant" else None
        entries.append(
            {
                "from": _AUTHORS[message.role],
                "value": "\n".join(filter(None, (message.content, *calls))),
                "loss": loss,
            }
        )
    row: JsonObject = {"item_id": episode.task_id or episode.id, "conversations": entries}
    return row if episode.score is None else {**row, "reward": episode.score}


class StepEntry(ClosedRow):
    """One step: what the agent thought and did, and what it saw then."""

    thought: Text = ""
    action: str = Field(min_length=1)
    observation: Text = ""
    reward: float | None = None


class StepsRow(ClosedRow):
    """A task and the steps of an episode."""

    instruction: str = Field(min_length=1, validation_alias=AliasChoices("instruction", "task", "question"))
    steps: tuple[StepEntry, ...] = Field(min_length=1, validation_alias=AliasChoices("steps", "trajectory"))
    task_id: str | int | None = Field(default=None, validation_alias=AliasChoices("task_id", "item_id", "id"))
    environment: Text = ""
    system: Text = ""
    score: float | None = Field(default=None, validation_alias=AliasChoices("score", "reward"))
    success: bool | None = None


def read_steps_row(row: JsonObject, origin: RowOrigin) -> tuple[RecordedEpisode, ...]:
    """Return the episode of a row of steps. A turn is ``Thought:`` and ``Action:``, each with its text on the
    next line as in AgentTraj, or the action alone where there is no thought. Raises RowError.
    """
    read = validated(StepsRow, row)
    messages = [*as_messages(read.system, "system")] if read.system else []
    messages.extend(as_messages(read.instruction, "user"))
    for number, step in enumerate(read.steps):
        if not step.action.strip():
            raise RowError(f"steps.{number}.action: is empty")
        said = f"Thought:\n{step.thought}\n\nAction:\n{step.action}" if step.thought else step.action
        messages.extend(as_messages(said, "assistant"))
        if step.observation:
            messages.extend(as_messages(step.observation, "user"))
        elif number < len(read.steps) - 1:
            raise RowError(f"steps.{number}.observation: is empty, and only the last step may have none")
    rewards = [step.reward for step in read.steps if step.reward is not None]
    if rewards and len(rewards) < len(read.steps):
        raise RowError(
            f"steps: {len(rewards)} of {len(read.steps)} have a reward; give all of them one, or none"
        )
    episode = RecordedEpisode(
        messages=tuple(messages),
        origin=origin,
        environment=read.environment,
        task_id="" if read.task_id is None else str(read.task_id),
        score=read.score,
        success=read.success,
        step_rewards=tuple(rewards),
    )
    return (episode,)


class CompletionRow(ClosedRow):
    """A prompt and its completion, as texts or messages, with a label where completions are judged."""

    prompt: str | Messages
    completion: str | Messages
    label: bool | None = None
    id: JsonValue = None
    prompt_id: JsonValue = None
    environment: Text = ""
    task_id: Id = ""
    tools: Tools = ()


def read_completion_row(
    row: JsonObject, origin: RowOrigin
) -> tuple[RecordedEpisode | LabelledCompletion, ...]:
    """Return a labelled completion or, of a row without ``label``, an episode. Raises RowError."""
    read = validated(CompletionRow, row)
    prompt, completion = as_messages(read.prompt, "user"), as_messages(read.completion, "assistant")
    check_completion("completion", completion)
    check_conversation((*prompt, *completion))
    untrained = untrained_turns(row, "completion")
    if read.label is None:
        if "label" in row:
            raise RowError("label: is null; a labelled completion is true (wanted) or false (unwanted)")
        messages = (*prompt, *completion)
        return (
            RecordedEpisode(
                messages,
                origin,
                environment=read.environment,
                task_id=read.task_id,
                tools=read.tools,
                skipped=_turns_of(prompt) | {len(prompt) + place for place in untrained},
            ),
        )
    return (
        LabelledCompletion(
            prompt, completion, read.label, origin, read.environment, read.task_id, read.tools, untrained
        ),
    )


def check_completion(name: str, completion: tuple[Message, ...]) -> None:
    """Raise RowError unless a completion begins with the assistant's message, and none of these is empty."""
    if completion[0].role != "assistant":
        raise RowError(f"{name}: begins with a message of the {completion[0].role}, not of the assistant")
    for message in completion:
        if message.role == "assistant" and is_empty(message):
            raise RowError(f"{name}: is empty")


def _turns_of(prompt: tuple[Message, ...]) -> frozenset[int]:
    """Return the indices of the assistant's messages in a prompt, which carry no loss."""
    return frozenset(place for place, message in enumerate(prompt) if message.role == "assistant")
