"""Episodes as documents of ATIF, the Agent Trajectory Interchange Format, which Harbor and viewers read.

An episode is one document. Its steps are the messages: those of the agent have the reasoning, the tool calls,
the tools' answers as observations, and the step's reward and times in ``extra``; all others are steps of the
user or the system. The document's own ``extra`` has the verdict and the other columns of an exported row.
What a fork has from its parent, and what an environment wrote in the agent's name, is marked as copied: no
one has to train on it twice.

The service does not know which agent and which model played, so that they are ``unknown``. The format is a
few JSON objects, so that it is written here; tests read it with the models of the package ``atif``, which is
no dependency of the service.

Source: https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md, version 1.8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue, ValidationError

from sandbox_contract.messages import Message

from .bodies import value_of_text
from .records import public_id
from .rows import episode_columns
from .view import agent_turns, tools_of

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.messages import ToolCall

    from .reader import StoredInstance
    from .records import EventRecord
    from .view import AgentTurn, EpisodeOutcome


VERSION = "ATIF-v1.8"
"""The version of the format."""
_UNKNOWN = "unknown"
_Role = Literal["system", "user", "assistant", "tool"]
_SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "system"}


@dataclass(slots=True)
class _Step:
    """A step in the making: the tools' answers are added to the step that called them."""

    source: str
    at: float
    content: JsonValue
    reasoning: str | None = None
    calls: list[JsonObject] = field(default_factory=list)
    results: list[JsonValue] = field(default_factory=list)
    extra: JsonObject = field(default_factory=dict)
    copied: bool = False

    def add_result(self, message: Message) -> None:
        """Add a tool's answer; a call that the step did not make is named in ``extra`` only."""
        result: JsonObject = {"content": _content_of(message)}
        known = message.tool_call_id in {call["tool_call_id"] for call in self.calls}
        if known:
            result["source_call_id"] = message.tool_call_id
        extra = {"tool_call_id": None if known else message.tool_call_id, "name": message.name}
        named: JsonObject = {name: value for name, value in extra.items() if value is not None}
        self.results.append({**result, "extra": named} if named else result)

    def document(self, number: int) -> JsonObject:
        """Return the step as JSON, without what it lacks."""
        step: JsonObject = {
            "step_id": number,
            "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat(),
            "source": self.source,
            "message": self.content,
        }
        further: JsonObject = {
            "reasoning_content": self.reasoning,
            "tool_calls": [*self.calls],
            "observation": {"results": self.results} if self.results else None,
            "is_copied_context": self.copied or None,
            "extra": self.extra,
        }
        return {**step, **{name: value for name, value in further.items() if value}}


def atif_document(
    stored: StoredInstance, events: Sequence[EventRecord], outcome: EpisodeOutcome
) -> JsonObject | None:
    """Return the document of an episode; None without any message, because a document must have a step."""
    steps = [step.document(number) for number, step in enumerate(_steps(stored, events), start=1)]
    if not steps:
        return None
    agent: JsonObject = {"name": _UNKNOWN, "version": _UNKNOWN}
    if tools := [tool for tool in tools_of(events) if isinstance(tool, dict)]:
        agent["tool_definitions"] = [*tools]
    return {
        "schema_version": VERSION,
        # The first ancestor, so that an instance and its forks are one session.
        "session_id": public_id(events[0].instance_id),
        "trajectory_id": public_id(stored.record.instance_id),
        "agent": agent,
        "steps": [*steps],
        "final_metrics": {"total_steps": len(steps)},
        "extra": episode_columns(stored, events, outcome),
    }


def _steps(stored: StoredInstance, events: Sequence[EventRecord]) -> Iterator[_Step]:
    for turn in agent_turns(events):
        for step in _steps_of_turn(turn):
            step.copied = step.copied or turn.event.instance_id != stored.record.instance_id
            yield step


def _steps_of_turn(turn: AgentTurn) -> list[_Step]:
    steps: list[_Step] = []
    caller: _Step | None = None
    if turn.action is not None:
        caller = _agent_step(turn.event, _message_of(turn.action, "assistant"))
        caller.extra = {"reward": turn.reward, "timing_ms": {**turn.event.timing_ms}}
        ends = {"terminated": turn.terminated, "truncated": turn.truncated}
        caller.extra.update({name: True for name, ended in ends.items() if ended})
        steps.append(caller)
    for message in (_message_of(observed, "user") for observed in turn.observed):
        if message.role == "tool":
            if caller is None:
                caller = _Step("system", turn.event.at, "")
                steps.append(caller)
            caller.add_result(message)
            continue
        step = _agent_step(turn.event, message)
        if message.role == "assistant":
            step.copied, caller = True, step
        steps.append(step)
    return steps


def _agent_step(event: EventRecord, message: Message) -> _Step:
    """Return the step of a message; only an assistant's has reasoning and calls."""
    step = _Step(_SOURCES[message.role], event.at, _content_of(message))
    if message.role == "assistant":
        step.reasoning = message.reasoning_content or message.reasoning
        step.calls = [_call_of(number, call) for number, call in enumerate(message.tool_calls or ())]
    if message.name is not None:
        step.extra["name"] = message.name
    return step


def _call_of(number: int, call: ToolCall) -> JsonObject:
    """Return a tool call; arguments that are no JSON object are kept in ``extra``, as text if not JSON."""
    given = call.function.arguments
    text = given if isinstance(given, str) else json.dumps(given)
    arguments: JsonValue = text
    with suppress(ValueError):
        arguments = value_of_text(text)
    made: JsonObject = {
        "tool_call_id": call.id or f"call_{number}",
        "function_name": call.function.name,
        "arguments": arguments if isinstance(arguments, dict) else {},
    }
    return made if isinstance(arguments, dict) else {**made, "extra": {"arguments": arguments}}


def _content_of(message: Message) -> JsonValue:
    """Return a message's text, or its parts where it shows pictures."""
    text = message.content or ""
    if not message.images:
        return text
    pictures: list[JsonValue] = [
        {"type": "image", "source": {"media_type": url[len("data:") : url.index(";")], "path": url}}
        for url in message.images
    ]
    return [{"type": "text", "text": text}, *pictures]


def _message_of(recorded: JsonObject, role: _Role) -> Message:
    """Return a recorded message; one that the contract does not admit is its JSON text, in the role given."""
    try:
        return Message.model_validate(recorded)
    except ValidationError:
        return Message(role=role, content=json.dumps(recorded, ensure_ascii=False))
