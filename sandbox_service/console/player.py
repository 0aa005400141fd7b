"""The episode player: the events of a trajectory as steps to go through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_contract.images import image_urls
from sandbox_service.trajectories.bodies import value_of_text

from .overview import BarPart

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.inspection import Event, InstanceTrajectory


_ENDS = ("release", "expire", "lost")
"""Operations after which nothing follows."""
_PHASES = ("queue_ms", "route_ms", "run_ms")
_SHOWN = frozenset({"instance_id", "observation", "reward", "terminated", "truncated", "step_index", "tools"})
"""Fields of a result that a step shows by other means, or that say nothing."""


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    """Names and values; the name is empty where the arguments are not an object."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the conversation."""

    role: str
    name: str
    text: str
    images: tuple[str, ...] = ()
    """Data URLs of pictures."""
    reasoning: str = ""
    calls: tuple[ShownCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownFailure:
    """A failed operation."""

    failure_class: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded operation."""

    sequence: int
    title: str
    operation: str
    at: float
    offset_s: float
    """Seconds since the first event."""
    action: tuple[Said, ...]
    """The agent's message."""
    observation: tuple[Said, ...]
    """The environment's answer."""
    reward: float | None
    ends: tuple[str, ...]
    """``terminated`` and ``truncated``, where they hold."""
    failure: ShownFailure | None
    timing: tuple[tuple[str, float], ...]
    """Milliseconds by phase."""
    bar: tuple[BarPart, ...]
    """The phases as shares of the longest step."""
    details: str
    """Further fields of request and result as JSON; empty where there are none."""
    file: str
    """The path of a file that was written."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode, or a page of it."""

    instance_id: str
    environment: str
    task_id: str
    tenant: str
    seed: int | None
    parent: str | None
    steps: tuple[Step, ...]
    next_cursor: str | None
    score: float | None
    """The score of the last evaluation."""
    success: bool | None
    reward: float
    """The sum of the step rewards."""
    failure: ShownFailure | None
    """The last failure."""
    seconds: float
    """From the first event to the last."""
    tools: tuple[str, ...]
    """Names of the tools that the episode offered."""
    live: bool
    """Whether further events may follow on this page: the instance has not ended."""
    forked: bool
    """Whether the instance was forked in the events of this page."""


def player(trajectory: InstanceTrajectory) -> EpisodeView:
    """Return the player of a trajectory's page."""
    events = trajectory.events
    first = events[0].at if events else 0.0
    longest = max((sum(_phases(event).values()) for event in events), default=0.0)
    numbers = _numbers(events)
    steps = tuple(_step(event, numbers[event.sequence], first, longest) for event in events)
    graded = [event for event in events if event.operation == "evaluate" and _failure(event) is None]
    rewards = [event.reward or 0.0 for event in events if event.operation == "step"]
    failures = [step.failure for step in steps if step.failure is not None]
    return EpisodeView(
        instance_id=trajectory.instance_id,
        environment=trajectory.environment,
        task_id=trajectory.task_id,
        tenant=trajectory.tenant,
        seed=trajectory.seed,
        parent=trajectory.parent,
        steps=steps,
        next_cursor=trajectory.next_cursor,
        score=graded[-1].reward if graded else None,
        success=(graded[-1].result or {}).get("success") is True if graded else None,
        reward=sum(rewards),
        failure=failures[-1] if failures else None,
        seconds=events[-1].at - first if events else 0.0,
        tools=_tools(events),
        live=trajectory.next_cursor is None and not any(event.operation in _ENDS for event in events),
        forked=any(_is_fork_of(trajectory.instance_id, event) for event in events),
    )


def _numbers(events: Sequence[Event]) -> Mapping[int, str]:
    """Return titles by sequence: steps are counted, other operations are named."""
    titles: dict[int, str] = {}
    for event in events:
        index = (event.result or {}).get("step_index") if event.operation == "step" else None
        name = event.operation.replace("_", " ")
        titles[event.sequence] = f"step {index}" if isinstance(index, int) else name
    return titles


def _step(event: Event, title: str, first: float, longest: float) -> Step:
    request, result = event.request or {}, event.result or {}
    failure = _failure(event)
    phases = _phases(event)
    path = request.get("path") if event.operation == "write_file" else None
    return Step(
        sequence=event.sequence,
        title=title,
        operation=event.operation,
        at=event.at,
        offset_s=event.at - first,
        action=tuple(_said([request.get("message")])),
        observation=tuple(_said(_messages(result))),
        reward=event.reward,
        ends=tuple(name for name in ("terminated", "truncated") if result.get(name) is True),
        failure=failure,
        timing=tuple((name.removesuffix("_ms"), value) for name, value in phases.items()),
        bar=_bar(phases, longest),
        details=_details(event, failure),
        file=path if isinstance(path, str) else "",
    )


def _is_fork_of(instance_id: str, event: Event) -> bool:
    """Return whether an event made forks of the instance; its history has its parent's earlier forks, too."""
    result = event.result or {}
    return event.operation == "fork" and result.get("instance_id") == instance_id and "instance_ids" in result


def _phases(event: Event) -> dict[str, float]:
    return {name: event.timing[name] for name in _PHASES if name in event.timing}


def _bar(phases: Mapping[str, float], longest: float) -> tuple[BarPart, ...]:
    parts: list[BarPart] = []
    start = 0.0
    for name, value in phases.items():
        width = 100 * value / longest if longest else 0.0
        parts.append(BarPart(name.removesuffix("_ms"), round(start, 2), round(width, 2), round(value)))
        start += width
    return tuple(parts)


def _failure(event: Event) -> ShownFailure | None:
    result = event.result or {}
    if event.operation == "lost" and not result:
        return ShownFailure("sandbox", "instance_lost", "")
    kind, code = result.get("failure_class"), result.get("code")
    if not (isinstance(code, str) and (isinstance(kind, str) or "status" in result)):
        return None
    return ShownFailure(str(kind or "unknown"), code, str(result.get("detail") or result.get("title") or ""))


def _details(event: Event, failure: ShownFailure | None) -> str:
    """Return what request and result have besides the conversation, as JSON."""
    request = {
        name: value for name, value in (event.request or {}).items() if name not in ("message", "instance_id")
    }
    result = {
        name: value
        for name, value in (event.result or {}).items()
        if name not in _SHOWN and value not in ({}, [])
    }
    parts = {} if failure is not None and not request else {"request": request}
    parts |= {"result": result} if failure is None else {}
    kept = {name: value for name, value in parts.items() if value}
    return json.dumps(kept, ensure_ascii=False, indent=2) if kept else ""


def _messages(result: JsonObject) -> Sequence[object]:
    observation = result.get("observation")
    messages = observation.get("messages") if isinstance(observation, dict) else None
    return messages if isinstance(messages, list) else []


def _said(messages: Sequence[object]) -> list[Said]:
    found = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        calls = message.get("tool_calls")
        found.append(
            Said(
                role=str(message.get("role", "")),
                name=str(message.get("name") or ""),
                text=_text(message.get("content")),
                images=image_urls(message.get("images")),
                reasoning=reasoning if isinstance(reasoning, str) else json.dumps(reasoning),
                calls=tuple(map(_call, calls)) if isinstance(calls, list) else (),
            )
        )
    return found


def _text(content: object) -> str:
    """Return a message's text; parts that are no text are shown as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    parts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        parts.append(text if isinstance(text, str) else json.dumps(part, ensure_ascii=False))
    return "\n".join(parts)


def _call(call: object) -> ShownCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return ShownCall("?", (("", json.dumps(call, ensure_ascii=False)),))
    arguments: object = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = value_of_text(arguments)
        except ValueError:
            return ShownCall(str(function.get("name")), (("", str(arguments)),))
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"": arguments}
    shown = tuple((str(name), _plain(value)) for name, value in arguments.items())
    return ShownCall(str(function.get("name")), shown)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tools(events: Sequence[Event]) -> tuple[str, ...]:
    tools = (events[0].result or {}).get("tools") if events else None
    if not isinstance(tools, list):
        return ()
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return tuple(str(each.get("name")) for each in functions if isinstance(each, dict))
