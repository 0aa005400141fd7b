"""Problem documents and batch outcomes, read as typed errors and results; no I/O.

Read loosely: a newer service may send codes and members that this client does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from sandbox_contract.episodes import StepResult
from sandbox_contract.problems import ErrorCode, FailureClass

from .errors import Failure, InvalidResponse, error_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    from pydantic import JsonValue

    from sandbox_contract.batches import BatchResult, OperationResult

    from .errors import SandboxError

__all__ = [
    "invalid_response",
    "made_in_batch",
    "operation_error",
    "problem_error",
    "server_timing",
    "step_outcome",
]

# What a proxy in front of the service answers in its place when it cannot reach it.
_PROXY_STATUSES = frozenset({429, 502, 503, 504})


def _known_class(value: object) -> object:
    """Return a class that clients know: one of a later service counts as the service's, never as a score."""
    known = {each.value for each in FailureClass}
    return FailureClass.SANDBOX if isinstance(value, str) and value not in known else value


class _ForeignProblem(BaseModel):
    """A problem document with the least that any version of the service sends."""

    model_config = ConfigDict(extra="ignore")

    code: str
    failure_class: Annotated[FailureClass, BeforeValidator(_known_class)]
    retryable: bool = False
    detail: str = ""
    title: str = ""
    request_id: str | None = None
    instance: str | None = None
    retry_after_s: float | None = None
    errors: tuple[str, ...] = ()


def made_in_batch(operations: Sequence[str], batched: BatchResult) -> tuple[str, ...]:
    """Return the instances that the operations of a batch, by their names, created or forked."""
    made: list[str] = []
    for operation, outcome in zip(operations, batched.results, strict=False):
        body = outcome.body
        if outcome.status >= 400 or not isinstance(body, dict):
            continue
        if operation == "create_instance":
            made.append(str(body.get("instance_id")))
        elif operation == "fork_instance" and isinstance(copies := body.get("instance_ids"), list):
            made += map(str, copies)
    return tuple(made)


def step_outcome(outcome: OperationResult) -> StepResult | SandboxError:
    """Return the result of one step of a batch, or its error."""
    if outcome.status < 400:
        try:
            return StepResult.model_validate(outcome.body)
        except ValidationError as error:
            detail = f"a step of a batch was answered with something else than its result: {error}"
            return InvalidResponse(Failure(detail, "invalid_response", FailureClass.SANDBOX))
    return operation_error(outcome.status, outcome.body)


def operation_error(status: int, body: JsonValue) -> SandboxError:
    """Return the typed error of one operation of a batch."""
    try:
        return error_of(_failure(_ForeignProblem.model_validate(body), status, None))
    except ValidationError as error:
        detail = f"an operation of a batch failed with status {status} and no problem document: {error}"
        return InvalidResponse(Failure(detail, "invalid_response", FailureClass.SANDBOX, status=status))


def problem_error(response: httpx.Response, body: bytes) -> SandboxError:
    """Return the typed error of an answer that is no success."""
    try:
        problem = _ForeignProblem.model_validate_json(body)
    except ValidationError:
        if response.status_code == 413:
            return error_of(_too_large(response))
        retryable = response.status_code in _PROXY_STATUSES
        detail = f"status {response.status_code} without a problem document: {body[:200]!r}"
        return invalid_response(response, detail, retryable)
    return error_of(_failure(problem, response.status_code, _retry_after(response)))


def _too_large(response: httpx.Response) -> Failure:
    detail = "the body is larger than a proxy in front of the service allows"
    return Failure(detail, ErrorCode.BODY_TOO_LARGE, FailureClass.REQUEST, status=response.status_code)


def _failure(problem: _ForeignProblem, status: int, retry_after_s: float | None) -> Failure:
    return Failure(
        detail=problem.detail or problem.title or "no detail was given",
        code=problem.code,
        failure_class=problem.failure_class,
        retryable=problem.retryable,
        status=status,
        request_id=problem.request_id,
        instance_id=problem.instance,
        retry_after_s=retry_after_s if problem.retry_after_s is None else problem.retry_after_s,
        errors=problem.errors,
    )


def invalid_response(response: httpx.Response, detail: str, retryable: bool = False) -> InvalidResponse:
    """Return the typed error of an answer that is not the contract's."""
    return InvalidResponse(
        Failure(
            detail,
            "invalid_response",
            FailureClass.SANDBOX,
            retryable,
            response.status_code,
            request_id=response.headers.get("x-request-id"),
            retry_after_s=_retry_after(response),
        )
    )


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of a Retry-After header; its date form is ignored, since clocks differ."""
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def server_timing(header: str) -> dict[str, float]:
    """Milliseconds by phase of a Server-Timing header, without the parts that have no duration."""
    timing: dict[str, float] = {}
    for part in header.split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        for parameter in parameters:
            if parameter.startswith("dur="):
                try:
                    timing[name] = float(parameter[4:].strip('"'))
                except ValueError:
                    continue
    return timing
