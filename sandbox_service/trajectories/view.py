"""Derive a recorded instance's trajectory, conversation and outcome from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_contract.frames import frame_after, opening_frame
from sandbox_contract.inspection import Event, InstanceTrajectory

from .bodies import json_object_of, object_of
from .records import EventKind, public_id

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject
    from sandbox_contract.frames import ConversationFrame

    from .pages import EventPage
    from .records import EventRecord, InstanceRecord


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """The result of an episode, as far as it was played."""

    step_rewards: tuple[float, ...]
    terminated: bool
    truncated: bool
    score: float | None
    """The score of the last evaluation, if there was one."""
    success: bool | None

    @property
    def reward(self) -> float:
        """The score where the episode was graded, else the sum of its step rewards."""
        return sum(self.step_rewards) if self.score is None else self.score


def trajectory_of(record: InstanceRecord, events: Sequence[EventRecord]) -> InstanceTrajectory:
    """Return the trajectory that the service's API shows."""
    return InstanceTrajectory(
        instance_id=public_id(record.instance_id),
        environment=record.environment,
        task_id=record.task_id,
        tenant=record.tenant,
        seed=record.seed,
        parent=None if record.parent is None else public_id(record.parent),
        events=tuple(
            Event(
                sequence=event.sequence,
                operation=event.kind.value,
                at=event.at,
                request=object_of(event.request),
                result=object_of(event.response),
                reward=event.reward,
                timing=event.timing_ms,
            )
            for event in events
        ),
    )


def trajectory_page(record: InstanceRecord, page: EventPage) -> bytes:
    """Return the JSON of a page of ``trajectory_of``, with the recorded bodies as they are."""
    head = trajectory_of(record, ())
    if page.more:
        head = head.model_copy(update={"next_cursor": str(page.events[-1].sequence)})
    before, empty, after = head.model_dump_json().encode().partition(b'"events":[]')
    assert empty
    return b"".join((before, b'"events":[', b",".join(map(_event_json, page.events)), b"]", after))


def _event_json(event: EventRecord) -> bytes:
    shown = Event(
        sequence=event.sequence,
        operation=event.kind.value,
        at=event.at,
        reward=event.reward,
        timing=event.timing_ms,
    )
    before, empty, after = shown.model_dump_json().encode().partition(b'"request":null,"result":null')
    assert empty
    request, result = json_object_of(event.request), json_object_of(event.response)
    return b"".join((before, b'"request":', request, b',"result":', result, after))


@dataclass(slots=True)
class AgentTurn:
    """The opening of an episode, or a step of the agent, with all that answers the agent."""

    event: EventRecord
    action: JsonObject | None
    """The agent's message; None for the opening."""
    info: JsonObject = field(default_factory=dict)
    """Facts about the observation, of the last answer, which may be that to a counterpart's message."""
    observed: list[JsonObject] = field(default_factory=list)
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


def agent_turns(events: Sequence[EventRecord]) -> list[AgentTurn]:
    """Return the agent's side of an episode; failed operations are left out, the next action was no answer.

    A counterpart, such as a simulated user, has a conversation of its own in the same instance, with other
    instructions. What is shown to it and what it says are left out; what its steps earn, and the messages
    that they lead to for the agent, belong to the agent's step before them.
    """
    turns: list[AgentTurn] = []
    awaited = False
    for event in events:
        if event.status >= 400 or event.kind not in (EventKind.CREATE, EventKind.STEP):
            continue
        result = object_of(event.response) or {}
        if not (awaited and turns):
            action = (object_of(event.request) or {}).get("message") if event.kind is EventKind.STEP else None
            turns.append(AgentTurn(event, action if isinstance(action, dict) else None))
        turn = turns[-1]
        info = result.get("info")
        info = info if isinstance(info, dict) else {}
        awaited = isinstance(info.get("awaits"), str)
        if not awaited:
            turn.info = info
            turn.observed += observed_messages(result)
        turn.reward += event.reward or 0.0
        turn.terminated = turn.terminated or result.get("terminated") is True
        turn.truncated = turn.truncated or result.get("truncated") is True
    return turns


def conversation_of(events: Sequence[EventRecord]) -> list[JsonObject]:
    """Return the agent's chat messages in order: the opening, then each action with its observation."""
    messages: list[JsonObject] = []
    for turn in agent_turns(events):
        messages += [] if turn.action is None else [turn.action]
        messages += turn.observed
    return messages


def tools_of(events: Sequence[EventRecord]) -> list[JsonValue]:
    """Return the tools that the episode offered at its beginning."""
    for event in events:
        if event.kind is EventKind.CREATE and event.status < 400:
            tools = (object_of(event.response) or {}).get("tools")
            return tools if isinstance(tools, list) else []
    return []


def frames_of(events: Sequence[EventRecord]) -> list[ConversationFrame]:
    """Return the sessions and sets of tools of ``conversation_of``, in order; the first is the opening's."""
    begun = opening_frame(())
    frames = [frame_after(begun, {"tools": tools_of(events)}, message=0) or begun]
    count = 0
    for turn in agent_turns(events):
        count += turn.action is not None
        if turn.event.kind is EventKind.STEP:
            frame = frame_after(frames[-1], turn.info, message=count)
            frames += [] if frame is None else [frame]
        count += len(turn.observed)
    return frames


def outcome_of(events: Sequence[EventRecord]) -> EpisodeOutcome:
    """Return the rewards, the score and the end of the episode."""
    rewards: list[float] = []
    terminated = truncated = False
    score: float | None = None
    success: bool | None = None
    for event in events:
        if event.status >= 400:
            continue
        if event.kind is EventKind.STEP:
            result = object_of(event.response) or {}
            rewards.append(event.reward or 0.0)
            terminated = terminated or result.get("terminated") is True
            truncated = truncated or result.get("truncated") is True
        elif event.kind is EventKind.EVALUATE:
            score = event.reward
            success = (object_of(event.response) or {}).get("success") is True
    return EpisodeOutcome(tuple(rewards), terminated, truncated, score, success)


def observed_messages(result: JsonObject) -> list[JsonObject]:
    """Return the messages that a result shows to the agent."""
    observation = result.get("observation")
    messages = observation.get("messages") if isinstance(observation, dict) else None
    return (
        [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    )
