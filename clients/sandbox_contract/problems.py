"""Error codes of the wire and the RFC 9457 problem that carries them.

Each code has one HTTP status, one failure class and one answer to "may I retry?"; the table below is
total, so neither the service nor a client ever guesses. Tracebacks never travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBLEM_MEDIA_TYPE = "application/problem+json"


class FailureClass(str, Enum):
    """The party at fault; a trainer decides by it whether to retry, mask or train."""

    POLICY = "policy"
    """The model failed: train on it. Reserved: no code has this class, since what a model does is an
    observation or the end of its episode. Clients know it, so that a later service may use it."""
    TASK = "task"
    """The task or its grader is broken: drop the task."""
    SANDBOX = "sandbox"
    """Infrastructure broke: retry with a fresh instance, never a reward."""
    CAPACITY = "capacity"
    """No room now: wait for Retry-After and try again."""
    TIMEOUT = "timeout"
    """A deadline passed: retry or mask."""
    REQUEST = "request"
    """The caller's request is wrong: correct it."""
    COUNTERPART = "counterpart"
    """The model of an episode's counterpart, such as a simulated user, failed: retry, never a reward. No code
    of the service has this class, since whoever plays the episode asks that model."""

    # As enum.StrEnum, which Python 3.10 lacks: the text of a member is its value.
    __str__ = str.__str__


class ErrorCode(str, Enum):
    """Stable names of everything that can go wrong."""

    MALFORMED_HTTP = "malformed_http"
    HEAD_TOO_LARGE = "head_too_large"
    MALFORMED_JSON = "malformed_json"
    JSON_TOO_DEEP = "json_too_deep"
    INVALID_REQUEST = "invalid_request"
    BODY_TOO_LARGE = "body_too_large"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_ENVIRONMENT = "unknown_environment"
    UNKNOWN_SPLIT = "unknown_split"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_INSTANCE = "unknown_instance"
    INSTANCE_RELEASED = "instance_released"
    INSTANCE_EXPIRED = "instance_expired"
    INSTANCE_FINISHED = "instance_finished"
    INSTANCE_BUSY = "instance_busy"
    DUPLICATE_INSTANCE = "duplicate_instance"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    STEP_INDEX_MISMATCH = "step_index_mismatch"
    FORK_UNSUPPORTED = "fork_unsupported"
    AGENTS_UNSUPPORTED = "agents_unsupported"
    UNKNOWN_AGENT_PACKAGE = "unknown_agent_package"
    MODEL_ENDPOINT_FORBIDDEN = "model_endpoint_forbidden"
    MODEL_ENDPOINT_UNSUPPORTED = "model_endpoint_unsupported"
    FILES_UNSUPPORTED = "files_unsupported"
    FILE_NOT_FOUND = "file_not_found"
    INVALID_PATH = "invalid_path"
    FILE_TOO_LARGE = "file_too_large"
    TASK_INVALID = "task_invalid"
    GRADER_FAILED = "grader_failed"
    INSTANCE_LOST = "instance_lost"
    INSTANCE_RECOVERED = "instance_recovered"
    FORK_FAILED = "fork_failed"
    SANDBOX_FAILED = "sandbox_failed"
    IMAGE_MISSING = "image_missing"
    STORAGE_FULL = "storage_full"
    SUPERVISOR_UNAVAILABLE = "supervisor_unavailable"
    OUTCOME_UNKNOWN = "outcome_unknown"
    INTERNAL = "internal"
    QUEUE_FULL = "queue_full"
    QUOTA_EXCEEDED = "quota_exceeded"
    DRAINING = "draining"
    QUEUE_TIMEOUT = "queue_timeout"
    STEP_TIMEOUT = "step_timeout"
    DEADLINE_EXCEEDED = "deadline_exceeded"

    __str__ = str.__str__


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """The meaning of a code on the wire."""

    status: int
    failure_class: FailureClass
    retryable: bool
    """The same request, with the same idempotency key, may be sent again as it is."""
    title: str


def _request(status: int, title: str) -> ErrorSpec:
    return ErrorSpec(status, FailureClass.REQUEST, False, title)


def _sandbox(status: int, retryable: bool, title: str) -> ErrorSpec:
    return ErrorSpec(status, FailureClass.SANDBOX, retryable, title)


ERROR_SPECS: Mapping[ErrorCode, ErrorSpec] = MappingProxyType(
    {
        ErrorCode.MALFORMED_HTTP: _request(400, "The request is incomplete or not valid HTTP"),
        ErrorCode.HEAD_TOO_LARGE: _request(431, "The URL or the headers are too large"),
        ErrorCode.MALFORMED_JSON: _request(400, "The body is not valid JSON"),
        ErrorCode.JSON_TOO_DEEP: _request(400, "The JSON is nested too deeply"),
        ErrorCode.INVALID_REQUEST: _request(422, "The request does not match its schema"),
        ErrorCode.BODY_TOO_LARGE: _request(413, "The body is too large"),
        ErrorCode.UNAUTHENTICATED: _request(401, "A valid API key is required"),
        ErrorCode.FORBIDDEN: _request(403, "This API key may not do that"),
        ErrorCode.NOT_FOUND: _request(404, "There is no such route"),
        ErrorCode.METHOD_NOT_ALLOWED: _request(405, "The route has no such method"),
        ErrorCode.UNKNOWN_ENVIRONMENT: _request(404, "There is no such environment"),
        ErrorCode.UNKNOWN_SPLIT: _request(404, "The environment has no such split"),
        ErrorCode.UNKNOWN_TASK: _request(404, "The environment has no such task"),
        ErrorCode.UNKNOWN_INSTANCE: _request(404, "There is no such instance"),
        ErrorCode.INSTANCE_RELEASED: _request(410, "The instance was released"),
        ErrorCode.INSTANCE_EXPIRED: _request(410, "The instance was idle for too long and was released"),
        ErrorCode.INSTANCE_FINISHED: _request(409, "The episode is over; evaluate or release it"),
        ErrorCode.INSTANCE_BUSY: _request(409, "Another operation is running on the instance"),
        ErrorCode.DUPLICATE_INSTANCE: _request(409, "An instance of this id exists"),
        ErrorCode.IDEMPOTENCY_CONFLICT: _request(409, "The idempotency key was used for another request"),
        ErrorCode.STEP_INDEX_MISMATCH: _request(409, "The instance is at another step"),
        ErrorCode.FORK_UNSUPPORTED: _request(409, "Instances of this environment cannot be forked"),
        ErrorCode.AGENTS_UNSUPPORTED: _request(409, "Instances of this environment run no agents"),
        ErrorCode.UNKNOWN_AGENT_PACKAGE: _request(404, "There is no such agent package"),
        ErrorCode.MODEL_ENDPOINT_FORBIDDEN: _request(403, "The service does not allow this model endpoint"),
        ErrorCode.MODEL_ENDPOINT_UNSUPPORTED: _request(
            409, "Boxes of this machine have no network of their own, and so cannot reach a model endpoint"
        ),
        ErrorCode.FILES_UNSUPPORTED: _request(409, "Instances of this environment have no files"),
        ErrorCode.FILE_NOT_FOUND: _request(404, "There is no such file"),
        ErrorCode.INVALID_PATH: _request(400, "The path leaves the workspace or is malformed"),
        ErrorCode.FILE_TOO_LARGE: _request(413, "The file is too large"),
        ErrorCode.TASK_INVALID: ErrorSpec(500, FailureClass.TASK, False, "The task could not be set up"),
        ErrorCode.GRADER_FAILED: ErrorSpec(500, FailureClass.TASK, False, "The grader failed"),
        ErrorCode.INSTANCE_LOST: _sandbox(410, False, "The instance was lost with its sandbox"),
        ErrorCode.INSTANCE_RECOVERED: _sandbox(
            409, False, "The instance was recovered and may lack its last steps"
        ),
        ErrorCode.FORK_FAILED: _sandbox(409, False, "The state of the instance could not be copied"),
        ErrorCode.SANDBOX_FAILED: _sandbox(503, True, "The sandbox failed"),
        ErrorCode.IMAGE_MISSING: _sandbox(503, False, "The sandbox image is missing"),
        ErrorCode.STORAGE_FULL: _sandbox(507, False, "The service has no storage left"),
        ErrorCode.SUPERVISOR_UNAVAILABLE: _sandbox(503, True, "No supervisor answers for the instance"),
        ErrorCode.OUTCOME_UNKNOWN: _sandbox(
            503, True, "The connection broke in mid-operation; retry with the same idempotency key"
        ),
        ErrorCode.INTERNAL: _sandbox(500, False, "The service failed"),
        ErrorCode.QUEUE_FULL: ErrorSpec(429, FailureClass.CAPACITY, True, "The tenant's queue is full"),
        ErrorCode.QUOTA_EXCEEDED: ErrorSpec(
            429, FailureClass.CAPACITY, True, "The tenant's quota is used up"
        ),
        ErrorCode.DRAINING: ErrorSpec(503, FailureClass.CAPACITY, True, "The service is shutting down"),
        ErrorCode.QUEUE_TIMEOUT: ErrorSpec(503, FailureClass.TIMEOUT, True, "No sandbox became free in time"),
        ErrorCode.STEP_TIMEOUT: ErrorSpec(
            504, FailureClass.TIMEOUT, False, "The operation ran past its deadline"
        ),
        ErrorCode.DEADLINE_EXCEEDED: ErrorSpec(
            504, FailureClass.TIMEOUT, True, "The service did not answer in time"
        ),
    }
)


class Problem(BaseModel):
    """An RFC 9457 problem document, media type ``application/problem+json``."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    type: str = "about:blank"
    """A URI reference that names the kind of problem."""
    title: str
    """A sentence that is the same for every occurrence of the code."""
    status: int
    """The HTTP status."""
    detail: str
    """The cause of this occurrence, and what to do next."""
    code: ErrorCode
    """The stable name of the error."""
    failure_class: FailureClass
    """The party at fault."""
    retryable: bool
    """Whether the same request with the same idempotency key may be sent again."""
    request_id: str | None = None
    """The id under which the service logged the request."""
    instance: str | None = None
    """The instance concerned, when there is one."""
    retry_after_s: float | None = None
    """Seconds to wait before a retry, when the service knows."""
    errors: tuple[str, ...] = ()
    """Field by field, what does not match the schema."""

    @classmethod
    def of(
        cls,
        code: ErrorCode,
        detail: str = "",
        *,
        request_id: str | None = None,
        instance: str | None = None,
        retry_after_s: float | None = None,
        errors: tuple[str, ...] = (),
    ) -> Problem:
        """Build the problem of ``code``; status, title and class come from the table."""
        spec = ERROR_SPECS[code]
        return cls(
            type=f"urn:sandbox-service:problem:{code.value}",
            title=spec.title,
            status=spec.status,
            detail=detail or spec.title,
            code=code,
            failure_class=spec.failure_class,
            retryable=spec.retryable,
            request_id=request_id,
            instance=instance,
            retry_after_s=retry_after_s,
            errors=errors,
        )
