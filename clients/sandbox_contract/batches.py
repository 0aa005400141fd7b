"""Many operations in one call, each with its own result or problem."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from .base import Request, Result
from .episodes import (
    CreateInstanceRequest,
    EvaluateRequest,
    ForkInstanceRequest,
    ReleaseInstanceRequest,
    StepRequest,
)

__all__ = ["MAX_BATCH", "BatchOperation", "BatchRequest", "BatchResult", "OperationResult"]

MAX_BATCH = 256


class CreateOperation(Request):
    """A create in a batch."""

    operation: Literal["create_instance"]
    request: CreateInstanceRequest


class StepOperation(Request):
    """A step in a batch."""

    operation: Literal["step"]
    request: StepRequest


class EvaluateOperation(Request):
    """An evaluation in a batch."""

    operation: Literal["evaluate"]
    request: EvaluateRequest


class ReleaseOperation(Request):
    """A release in a batch."""

    operation: Literal["release_instance"]
    request: ReleaseInstanceRequest


class ForkOperation(Request):
    """A fork in a batch."""

    operation: Literal["fork_instance"]
    request: ForkInstanceRequest


BatchOperation = Annotated[
    CreateOperation | StepOperation | EvaluateOperation | ReleaseOperation | ForkOperation,
    Field(discriminator="operation"),
]


class BatchRequest(Request):
    """Operations that run concurrently; those on one instance must not share a batch."""

    operations: Annotated[tuple[BatchOperation, ...], Field(min_length=1, max_length=MAX_BATCH)]
    """1 to 256 operations."""


class OperationResult(Result):
    """The outcome of one operation of a batch."""

    status: int
    """The HTTP status that the operation would have had on its own."""
    body: JsonValue
    """Its result, or its problem when the status is 400 or more."""
    timing: dict[str, float] = {}
    """Milliseconds by phase, as in Server-Timing: queue, route, run."""


class BatchResult(Result):
    """Outcomes in the order of the operations."""

    results: tuple[OperationResult, ...]
    """One outcome an operation."""
