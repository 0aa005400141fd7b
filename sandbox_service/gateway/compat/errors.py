"""Error responses of AgentScope's protocol, which AgentGym's routes also use.

An error is ``{"detail": ...}``: a message, or a list of field errors if the body does not match its schema.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, JsonValue

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.responses import HttpResponse, error_headers
from sandbox_service.gateway.schema_errors import SchemaError

if TYPE_CHECKING:
    from sandbox_service.gateway.exchange import HttpExchange


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
"""Codes that the protocol answers with status 400, as it does for everything unknown."""


class MissingFieldError(ServiceError):
    """A required field is null or missing; the protocol's own servers answer 400."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, f"{name} is required")
        self.name = name

    def __reduce__(self) -> tuple[type[MissingFieldError], tuple[str]]:
        return (type(self), (self.name,))


class CompatFailure(BaseModel):
    """An error of the protocol."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    detail: str | list[dict[str, JsonValue]]
    """A message, or a list of field errors."""


def error_response(exchange: HttpExchange, error: ServiceError) -> HttpResponse:
    """Return the response of an error."""
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
    return HttpResponse(status, body, headers=error_headers(problem))
