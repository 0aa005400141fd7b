"""Answers to requests that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_frame
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame


logger = get_logger(__name__)


def error_answer(frame: Frame, error: Exception) -> Frame:
    """Return the ERROR frame that answers a request.

    An exception that is no ServiceError is a defect of the service: it is logged, and the caller learns
    nothing of it but the code INTERNAL.
    """
    if isinstance(error, ServiceError):
        return error_frame(frame, error)
    logger.error(
        "operation_failed",
        op=frame.op.name,
        request_id=frame.meta.get("request_id"),
        instance_id=frame.instance_id,
        exc_info=error,
    )
    return error_frame(frame, ServiceError(ErrorCode.INTERNAL))
