"""Convert ERROR frames to ServiceErrors and back."""

from __future__ import annotations

import json

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, NodeFullError, ServiceError
from sandbox_service.wire.frames import Frame, Op

from .routing import NODE_FULL, OWNER


def error_of(frame: Frame) -> ServiceError:
    """Return the exception that an ERROR frame carries; INTERNAL for a frame that cannot be parsed."""
    try:
        body = json.loads(frame.body)
        wait = body.get("retry_after_s")
        retry_after_s = None if wait is None else float(wait)
        code, detail = ErrorCode(body["code"]), str(body["detail"])
        if code is ErrorCode.STORAGE_FULL and frame.meta.get(NODE_FULL):
            return NodeFullError(detail, retry_after_s)
        return ServiceError(code, detail, retry_after_s)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServiceError(ErrorCode.INTERNAL, "the peer sent an ERROR frame without code and detail")


def reply_or_raise(frame: Frame) -> Frame:
    """Return the frame, or raise the ServiceError that it carries."""
    if frame.op is Op.ERROR:
        raise error_of(frame)
    return frame


def error_frame(request: Frame, error: ServiceError) -> Frame:
    """Return the ERROR frame that answers a request."""
    body: dict[str, str | float] = {"code": error.code.value, "detail": error.detail}
    if error.retry_after_s is not None:
        body["retry_after_s"] = error.retry_after_s
    meta: dict[str, str | bool] = {}
    if isinstance(error, MovedError):
        meta = {OWNER: error.owner}
    elif isinstance(error, NodeFullError):
        meta = {NODE_FULL: True}
    return Frame(Op.ERROR, request.request_id, request.instance_id, meta, json.dumps(body).encode())
