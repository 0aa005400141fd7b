"""Records of made-up episodes, with bodies such as the service writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.trajectories.records import EventKind, EventRecord, InstanceRecord

if TYPE_CHECKING:
    from sandbox_service.trajectories.store import SqlTrajectoryStore

START = 1_700_000_000.0


def instance(name: str = "s1.a", **changes: object) -> InstanceRecord:
    facts = {
        "instance_id": name,
        "environment": "echo",
        "task_id": "echo-1",
        "tenant": "acme",
        "supervisor": "s1",
        "created_at": START,
        "seed": 7,
    }
    return InstanceRecord(**{**facts, **changes})  # type: ignore[arg-type]


def event(
    name: str = "s1.a", sequence: int = 0, kind: EventKind = EventKind.STEP, **changes: object
) -> EventRecord:
    return EventRecord(name, sequence, kind, START + sequence, **changes)  # type: ignore[arg-type]


def create(name: str = "s1.a", sequence: int = 0, key: str | None = None) -> EventRecord:
    result = {
        "instance_id": name,
        "observation": {"messages": [{"role": "user", "content": "Say something."}]},
        "tools": [{"type": "function", "function": {"name": "say", "parameters": {}}}],
    }
    request = {"environment": "echo", "task_id": "echo-1"}
    return event(
        name,
        sequence,
        EventKind.CREATE,
        request=_bytes(request),
        response=_bytes(result),
        idempotency_key=key,
    )


def step(
    name: str = "s1.a", sequence: int = 1, index: int = 0, reward: float = 0.0, **fields: object
) -> EventRecord:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "say", "arguments": {"text": f"word {index}"}},
    }
    message = {"role": "assistant", "content": f"step {index}", "reasoning_content": f"think {index}"}
    request = {"instance_id": name, "message": {**message, "tool_calls": [call], "extra": 1}}
    result = {
        "instance_id": name,
        "step_index": index,
        "observation": {"messages": [{"role": "tool", "content": f"word {index}", "tool_call_id": "c1"}]},
        "reward": reward,
        **fields,
    }
    return event(
        name,
        sequence,
        EventKind.STEP,
        request=_bytes(request),
        response=_bytes(result),
        reward=reward,
        timing_ms={"run_ms": 1.5},
    )


def failure(name: str = "s1.a", sequence: int = 1) -> EventRecord:
    problem = {"code": "step_timeout", "detail": "the step ran past its deadline", "status": 504}
    request = {"instance_id": name, "message": {"role": "assistant", "content": "loop for ever"}}
    return event(
        name, sequence, EventKind.STEP, request=_bytes(request), response=_bytes(problem), status=504
    )


def evaluation(name: str = "s1.a", sequence: int = 3, score: float = 1.0) -> EventRecord:
    result = {"instance_id": name, "score": score, "success": score >= 1.0, "details": {}}
    return event(name, sequence, EventKind.EVALUATE, response=_bytes(result), reward=score)


def with_customer(**info: object) -> tuple[EventRecord, ...]:
    """An episode with a customer, who begins, answers the agent once, and whose steps earn 0.25 each.

    ``info`` is that of the customer's second step.
    """
    return (
        _shown(EventKind.CREATE, 0, {}, "You are a customer.", awaits="user"),
        _shown(EventKind.STEP, 1, {"content": "Hello.", "name": "user"}, "You are a clerk. Hello."),
        _shown(EventKind.STEP, 2, {"content": "Good day."}, "Good day.", awaits="user"),
        _shown(EventKind.STEP, 3, {"content": "A bike.", "name": "user"}, "A bike.", **info),
        _shown(EventKind.STEP, 4, {"content": "Here it is."}, "Thanks."),
    )


def _shown(kind: EventKind, sequence: int, said: dict[str, str], shown: str, **info: object) -> EventRecord:
    reward = 0.25 if kind is EventKind.STEP and "name" in said else 0.0
    result = {
        "observation": {"messages": [{"role": "user", "content": shown}]},
        "reward": reward,
        "info": info,
    }
    request = {"message": {"role": "assistant", **said}} if said else {}
    return event(
        sequence=sequence, kind=kind, request=_bytes(request), response=_bytes(result), reward=reward
    )


@dataclass(frozen=True, slots=True)
class Episode:
    name: str
    score: float | None = 1.0
    at: float = START
    environment: str = "echo"
    tenant: str = "acme"


def record(store: SqlTrajectoryStore, episode: Episode) -> None:
    """An episode of two steps, graded unless its score is None, and released."""
    name = episode.name
    store.open_instance(
        instance(name, created_at=episode.at, environment=episode.environment, tenant=episode.tenant)
    )
    store.append(create(name))
    store.append(step(name, 1, 0, reward=0.25))
    store.append(step(name, 2, 1, reward=0.5, terminated=True))
    if episode.score is not None:
        store.append(evaluation(name, 3, episode.score))
    store.append(event(name, 4, EventKind.RELEASE))


def _bytes(value: object) -> bytes:
    return json.dumps(value).encode()
