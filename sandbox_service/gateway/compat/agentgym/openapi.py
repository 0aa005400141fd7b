"""Document the AgentGym routes in the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from fastapi.routing import APIRoute

from sandbox_service.gateway.compat.errors import CompatFailure
from sandbox_service.gateway.openapi import Responses, documented_route

from .dialects import DIALECTS
from .models import AgentGymFailure, Id

if TYPE_CHECKING:
    from .dialects import ServerDialect


_FAILURES: Responses = {
    401: {"description": "A valid API key is required.", "model": CompatFailure},
    403: {"description": "The caller is not allowed to do this.", "model": CompatFailure},
    413: {"description": "The body is too large.", "model": CompatFailure},
    422: {"description": "The request does not match its schema.", "model": CompatFailure},
}
_BODY_FAILURES: Responses = {400: {"description": "The JSON is nested too deeply.", "model": CompatFailure}}
_PLAIN_FAILURES: Responses = {
    status: {"description": description, "model": AgentGymFailure}
    for status, description in (
        (404, "No such id, task or environment."),
        (409, "The session is over, or busy."),
        (410, "The session was closed, has expired or was lost."),
        (500, "The service or the task failed."),
        (503, "No capacity now."),
        (504, "A deadline passed."),
        (507, "The service has no storage left."),
    )
}
_TAGS = ["AgentGym"]


def agentgym_documentation() -> list[APIRoute]:
    """Return the documented routes of all servers."""
    return [route for dialect in DIALECTS for route in _server(dialect)]


def _server(dialect: ServerDialect) -> Iterable[APIRoute]:
    yield _read_route(dialect, "", str, "Name the server", ())
    for name, request, result, summary in (
        ("create", None, dialect.created, "Create an environment"),
        ("reset", dialect.reset, dialect.opened, "Start a task in it"),
        ("step", dialect.step, dialect.stepped, "Take one action"),
        ("close", dialect.id_request, bool, "End its episode"),
    ):
        yield _post_route(dialect, name, request, result, summary)
    for name, read in dialect.reads.items():
        yield _read_route(
            dialect,
            name,
            read.result,
            f"Return the {name.replace('_', ' ')}",
            tuple(dialect.id_request.model_fields),
        )
    if dialect.plain:
        yield _read_route(dialect, "list_envs", list[int], "List environments with an episode", ())


def _post_route(dialect: ServerDialect, name: str, request: object, result: object, summary: str) -> APIRoute:
    return documented_route(
        f"/agentgym/{dialect.name}/{name}",
        f"agentgym_{dialect.name}_{name}",
        request,
        _or_failure(dialect, result),
        {**_failures(dialect), **({} if request is None else _BODY_FAILURES)},
        summary=summary,
        tags=list(_TAGS),
    )


def _read_route(
    dialect: ServerDialect, name: str, result: object, summary: str, parameters: tuple[str, ...]
) -> APIRoute:
    def described(**_: object) -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    described.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, annotation=Annotated[Id, Query()]) for name in parameters]
    )
    path = f"/agentgym/{dialect.name}"
    return APIRoute(
        f"{path}/{name}" if name else path,
        described,
        methods=["GET"],
        operation_id=f"agentgym_{dialect.name}_{name or 'hello'}",
        response_model=_or_failure(dialect, result),
        responses=_failures(dialect),
        summary=summary,
        tags=list(_TAGS),
    )


def _failures(dialect: ServerDialect) -> Responses:
    """Return a copy of each response, since FastAPI modifies them."""
    failures = {**_FAILURES, **(_PLAIN_FAILURES if dialect.plain else {})}
    return {status: dict(response) for status, response in failures.items()}


def _or_failure(dialect: ServerDialect, result: Any) -> Any:  # noqa: ANN401 - a type form
    return result if dialect.plain else result | AgentGymFailure
