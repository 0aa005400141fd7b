"""Models of the AgentScope Runtime protocol, and the form in which it tells errors.

Every request has the same body; unknown fields are ignored and nulls accepted, since its clients send
both. Errors are ``{"detail": ...}``: a sentence, or a list of fields for a body that fits no schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.answers import Answer, error_headers
from sandbox_service.gateway.refusals import SchemaError

if TYPE_CHECKING:
    from sandbox_service.gateway.exchange import Exchange

__all__ = [
    "CompatFailure",
    "CompatReply",
    "CompatRequest",
    "ManagerCall",
    "ManagerCreate",
    "ManagerRelease",
    "ManagerReply",
    "MissingFieldError",
    "json_answer",
    "refuse",
    "success",
]

_AS_BAD_REQUEST = frozenset(
    {
        ErrorCode.UNKNOWN_ENVIRONMENT,
        ErrorCode.UNKNOWN_SPLIT,
        ErrorCode.UNKNOWN_TASK,
        ErrorCode.UNKNOWN_INSTANCE,
        ErrorCode.INSTANCE_RELEASED,
        ErrorCode.INSTANCE_EXPIRED,
    }
)
"""The protocol has one status for whatever it does not know: 400."""


class MissingFieldError(ServiceError):
    """A field that the operation needs is null or missing; the protocol's own servers answer 400."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"{name} is required")
        self.name = name

    def __reduce__(self) -> tuple[type[MissingFieldError], tuple[str]]:
        return (type(self), (self.name,))


class _Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class CompatRequest(_Lenient):
    """The body of every route of the protocol."""

    env_type: str | None = "appworld"
    """The environment; read by get_env_profile and create only."""
    task_id: str | None = None
    """The task; read by create only."""
    instance_id: str | None = None
    """The instance; optional for create."""
    messages: dict[str, JsonValue] | None = None
    """The action of a step: one assistant message."""
    params: dict[str, JsonValue] | None = None
    """Parameters of the operation."""


class CompatReply(_Lenient):
    """The answer of every route of the protocol."""

    success: bool
    """False only for the release of an instance that there is not."""
    data: JsonValue
    """The result."""


class CompatFailure(_Lenient):
    """An error of the protocol."""

    detail: str | list[dict[str, JsonValue]]
    """A sentence, or field by field what does not match the schema."""


class ManagerCreate(_Lenient):
    """A box class asks for a sandbox."""

    sandbox_type: str
    """The environment."""
    meta: dict[str, JsonValue] | None = None
    """Accepted and ignored."""


class ManagerCall(_Lenient):
    """A box class calls one of its methods."""

    identity: str
    """The sandbox id."""
    tool_name: Literal[
        "create_instance", "get_task_ids", "get_env_profile", "step", "evaluate", "release_instance"
    ]
    """The method."""
    arguments: dict[str, JsonValue] | None = None
    """Its arguments by name."""


class ManagerRelease(_Lenient):
    """A box class gives its sandbox back."""

    identity: str
    """The sandbox id."""


class ManagerReply(_Lenient):
    """The answer of the manager's routes."""

    data: JsonValue
    """The sandbox id, the method's result, or whether a sandbox was released."""


def success(data: JsonValue) -> bytes:
    """The body of a successful answer of the environments' routes."""
    return _compact({"success": True, "data": data})


def json_answer(value: JsonValue) -> Answer:
    """A successful answer of the protocol."""
    return Answer(200, _compact(value))


def _compact(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def refuse(exchange: Exchange, error: ServiceError) -> Answer:
    """An error in the protocol's form."""
    problem = error.problem(exchange.request_id)
    exchange.error = problem.code
    bad = problem.code in _AS_BAD_REQUEST or isinstance(error, MissingFieldError)
    status = 400 if bad else problem.status
    detail: JsonValue = problem.detail
    if isinstance(error, SchemaError):
        detail = [
            {"type": each.kind, "loc": ["body", *each.location], "msg": each.message} for each in error.fields
        ]
    elif problem.code is ErrorCode.MALFORMED_JSON:
        status = 422
        detail = [{"type": "json_invalid", "loc": ["body"], "msg": problem.detail}]
    body = json.dumps({"detail": detail}).encode()
    return Answer(status, body, headers=error_headers(problem))
