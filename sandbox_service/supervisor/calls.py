"""Sends operations of instances to their boxes, and ends instances whose operation cost them their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, UnsentError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Op

from .instances import end_error

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame

    from .instances import Instance
    from .pooled_box import PooledBox
    from .termination import Termination


_WORKER_GONE = (ErrorCode.STEP_TIMEOUT, ErrorCode.INSTANCE_LOST, ErrorCode.UNKNOWN_INSTANCE)
"""Errors after which the runner has no state of the instance."""

_Model = TypeVar("_Model", bound=BaseModel)


class NotStartedError(ServiceError):
    """The worker ended before the operation began; it may be sent again to the rebuilt instance."""


class BoxCalls:
    """Sends operations to boxes."""

    def __init__(self, termination: Termination) -> None:
        self._termination = termination

    async def call_box(
        self,
        instance: Instance,
        box: PooledBox,
        frame: Frame,
        timeout_s: float,
        received: Frame | None = None,
    ) -> Frame:
        """Return the runner's answer: a REPLY, or an ERROR that leaves the instance as it is.

        ``received`` is the request whose timeout is to be recorded. Raises ServiceError if the state of the
        instance is gone or the instance ended meanwhile, NotStartedError if the state can be rebuilt and the
        operation is no part of it, and UnsentError if the frame is too large: the instance is as before.
        """
        try:
            reply = await box.execute(frame, timeout_s)
        except UnsentError:
            raise
        except ServiceError as error:
            raise self._termination.handle_failure(instance, error, received) from error
        if reply.op is Op.ERROR:
            refusal = error_of(reply)
            if refusal.code in _WORKER_GONE:
                failure = self._termination.handle_failure(instance, refusal, received)
                if reply.meta.get("unstarted") and failure.code is ErrorCode.SANDBOX_FAILED:
                    raise NotStartedError(failure.code, failure.detail)
                raise failure
        if instance.ended:
            raise end_error(instance.state, instance.reason)
        return reply


def parse_request(model: type[_Model], body: bytes) -> _Model:
    """Parse and validate the body of a request.

    The gateway has validated it before, in another process and perhaps on another node. The supervisor does
    not rely on that for the fields that decide about the task, the seed and the grading. The body of a step
    passes through unparsed: only the box reads it.

    Raises ServiceError(INVALID_REQUEST), whose detail does not repeat what was sent.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:200]
        raise ServiceError(ErrorCode.INVALID_REQUEST, f"{place}: {first['msg']}") from error
