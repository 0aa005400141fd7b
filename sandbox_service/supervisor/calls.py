"""Calls to a box on behalf of an instance, and what it means for the instance when one fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Frame, Op

from .instances import gone

if TYPE_CHECKING:
    from sandbox_service.environments.base import TaskPayload

    from .endings import Endings, OnTimeout
    from .instances import Instance
    from .live_box import LiveBox


_WORKER_GONE = (ErrorCode.STEP_TIMEOUT, ErrorCode.INSTANCE_LOST, ErrorCode.UNKNOWN_INSTANCE)
"""Errors after which the runner holds nothing of the instance."""

_Model = TypeVar("_Model", bound=BaseModel)


class NotStartedError(ServiceError):
    """The worker ended before it came to the operation, which may be asked again of the rebuilt instance."""


async def ask(
    endings: Endings,
    instance: Instance,
    box: LiveBox,
    frame: Frame,
    timeout_s: float,
    on_timeout: OnTimeout | None = None,
) -> Frame:
    """The runner's answer: a REPLY, or an ERROR that leaves the instance as it is.

    ``on_timeout`` takes the error of an operation that was killed, before the instance ends with it.
    Raises ServiceError when the state of the instance is gone, or the instance ended meanwhile;
    NotStartedError when the state can be rebuilt and does not have the operation in it.
    """
    try:
        reply = await box.execute(frame, timeout_s)
    except ServiceError as error:
        raise endings.failed(instance, error, on_timeout) from error
    if reply.op is Op.ERROR:
        refusal = error_of(reply)
        if refusal.code in _WORKER_GONE:
            failure = endings.failed(instance, refusal, on_timeout)
            if reply.meta.get("unstarted") and failure.code is ErrorCode.SANDBOX_FAILED:
                raise NotStartedError(failure.code, failure.detail)
            raise failure
    if instance.ended:
        raise gone(instance.state, instance.reason)
    return reply


def create_frame(instance: Instance, payload: TaskPayload, deadline_s: float) -> Frame:
    """The frame that sets an instance up in a box; the same one each time it is rebuilt."""
    meta: dict[str, Any] = {
        "deadline_s": deadline_s,
        "seed": instance.seed,
        "max_steps": payload.max_steps,
    }
    body = {
        "environment": instance.spec.name,
        "task_id": instance.task_id,
        "task": payload.task,
        "params": instance.params,
    }
    return Frame(Op.CREATE, 0, instance.public_id, meta, json.dumps(body, separators=(",", ":")).encode())


def parse(model: type[_Model], body: bytes) -> _Model:
    """A request out of its body. Raises ServiceError(INVALID_REQUEST), never repeating what was sent."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:200]
        raise ServiceError(ErrorCode.INVALID_REQUEST, f"{place}: {first['msg']}") from error
