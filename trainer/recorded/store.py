"""Read episodes from the trajectory store of a running service, over its API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox_client import SandboxError, TransportError
from sandbox_client.counterparts import awaited
from sandbox_contract.frames import frame_after, opening_frame
from sandbox_contract.messages import Message, Tool
from sandbox_settings import first_mistake
from trainer.errors import DataError, ServiceUnavailable

from .bad_rows import RowError
from .fields import check_conversation
from .frames import in_frames
from .types import RecordedEpisode, RowOrigin

if TYPE_CHECKING:
    from sandbox_client import SandboxClient
    from sandbox_contract.base import JsonObject
    from sandbox_contract.inspection import Event, InstanceTrajectory


def stored_trajectories(
    client: SandboxClient, address: str, ids: Sequence[str] = ()
) -> Iterator[InstanceTrajectory]:
    """Yield the trajectories of instances; without ids, of all live ones that the service lists.

    Ended instances are not listed, but their trajectories stay: name their ids, or export the store. Raises
    DataError for an instance that the service does not know, ServiceUnavailable where it does not answer.
    """
    try:
        wanted = ids or [each.instance_id for each in client.instances().instances]
    except SandboxError as error:
        raise ServiceUnavailable(f"{address}: its instances cannot be listed: {error}") from error
    if not wanted:
        raise DataError(f"{address}: the service has no live instances; name instances, or export its store")
    for name in wanted:
        try:
            trajectory = client.trajectory(name)
        except TransportError as error:
            raise ServiceUnavailable(f"{address}: {name} cannot be read: {error}") from error
        except SandboxError as error:
            raise DataError(f"{address}:{name}: its trajectory cannot be read: {error}") from error
        yield trajectory


def recorded_instance(trajectory: InstanceTrajectory, origin: RowOrigin) -> tuple[RecordedEpisode, ...]:
    """Return the agent's side of a recorded instance, a record for each session and each set of tools.

    Failed operations are left out. Raises RowError.

    What a counterpart is shown and says is left out: it has other instructions. The rewards of its steps, and
    the messages that they lead to for the agent, belong to the agent's step before them.
    """
    messages: list[Message] = []
    frames = [opening_frame(())]
    params: JsonObject = {}
    rewards: list[float] = []
    score: float | None = None
    success: bool | None = None
    truncated = lost = waiting = False
    for event in trajectory.events:
        result = event.result or {}
        if event.operation in ("create", "step") and "observation" in result:
            if event.operation == "create":
                frames, params = [opening_frame(_tools(result))], _params(event)
            elif not waiting:
                messages += _said(event)
                rewards.append(event.reward or 0.0)
            elif rewards:
                rewards[-1] += event.reward or 0.0
            waiting = awaited(_info(result)) is not None
            if not waiting and rewards:
                frame = frame_after(frames[-1], _info(result), len(messages))
                frames += [] if frame is None else [frame]
            messages += [] if waiting else _observed(result)
            truncated = truncated or result.get("truncated") is True
        elif event.operation == "evaluate" and "score" in result:
            score, success = event.reward, result.get("success") is True
        lost = lost or event.operation == "lost"
    check_conversation(messages)
    episode = RecordedEpisode(
        messages=tuple(messages),
        origin=origin,
        id=trajectory.instance_id,
        environment=trajectory.environment,
        task_id=trajectory.task_id,
        tools=frames[0].tools,
        score=score,
        success=success,
        step_rewards=tuple(rewards),
        seed=trajectory.seed,
        params=params,
        failure_class="sandbox" if lost else "",
        truncated=truncated,
    )
    return in_frames(episode, frames)


def _params(event: Event) -> JsonObject:
    params = (event.request or {}).get("params")
    return params if isinstance(params, dict) else {}


def _said(event: Event) -> list[Message]:
    message = (event.request or {}).get("message")
    return [_message(message)] if isinstance(message, dict) else []


def _info(result: JsonObject) -> JsonObject:
    info = result.get("info")
    return info if isinstance(info, dict) else {}


def _observed(result: JsonObject) -> list[Message]:
    observation = result.get("observation")
    messages = observation.get("messages") if isinstance(observation, dict) else None
    return [_message(each) for each in messages] if isinstance(messages, list) else []


def _message(value: object) -> Message:
    try:
        return Message.model_validate(value)
    except ValidationError as error:
        raise RowError(f"a recorded message is invalid: {first_mistake(error)}") from None


def _tools(result: JsonObject) -> tuple[Tool, ...]:
    tools = result.get("tools")
    if not isinstance(tools, list):
        return ()
    try:
        return tuple(Tool.model_validate(each) for each in tools)
    except ValidationError as error:
        raise RowError(f"a recorded tool is invalid: {first_mistake(error)}") from None
