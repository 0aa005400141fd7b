"""The AgentGym routes' part of the OpenAPI document."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from fastapi.routing import APIRoute

from sandbox_service.gateway.compat.refusals import CompatFailure
from sandbox_service.gateway.documents import documented_route

from .dialects import DIALECTS
from .models import AgentGymFailure, Id

if TYPE_CHECKING:
    from .dialects import Dialect


_FAILURES: dict[int | str, dict[str, Any]] = {
    401: {"description": "A valid API key is required.", "model": CompatFailure},
    403: {"description": "The caller may not do that.", "model": CompatFailure},
    413: {"description": "The body is too large.", "model": CompatFailure},
    422: {"description": "The request does not match its schema.", "model": CompatFailure},
}
_BODY_FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The JSON is nested too deeply.", "model": CompatFailure}
}
_PLAIN_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "model": AgentGymFailure}
    for status, description in (
        (404, "No such id, task or environment."),
        (409, "The session is over, or busy."),
        (410, "The session was closed, has expired or was lost."),
        (500, "The service or the task failed."),
        (503, "No room now."),
        (504, "A deadline passed."),
        (507, "The service has no storage left."),
    )
}
_TAGS = ["AgentGym"]


def agentgym_documentation() -> list[APIRoute]:
    """Routes for the document."""
    return [route for dialect in DIALECTS for route in _server(dialect)]


def _server(dialect: Dialect) -> Iterable[APIRoute]:
    yield _told(dialect, "", str, "Say hello", ())
    for name, request, result, summary in (
        ("create", None, dialect.created, "Make a place for episodes"),
        ("reset", dialect.reset, dialect.opened, "Begin a task there"),
        ("step", dialect.act, dialect.stepped, "Take one action"),
        ("close", dialect.place, bool, "End the episode there"),
    ):
        yield _done(dialect, name, request, result, summary)
    for name, look in dialect.looks.items():
        yield _told(
            dialect,
            name,
            look.result,
            f"Tell the {name.replace('_', ' ')}",
            tuple(dialect.place.model_fields),
        )
    if dialect.plain:
        yield _told(dialect, "list_envs", list[int], "List places with an episode", ())


def _done(dialect: Dialect, name: str, request: object, result: Any, summary: str) -> APIRoute:  # noqa: ANN401 - a type form
    return documented_route(
        f"/agentgym/{dialect.name}/{name}",
        f"agentgym_{dialect.name}_{name}",
        request,
        _or_failure(dialect, result),
        {**_failures(dialect), **({} if request is None else _BODY_FAILURES)},
        summary=summary,
        tags=list(_TAGS),
    )


def _told(dialect: Dialect, name: str, result: Any, summary: str, parameters: tuple[str, ...]) -> APIRoute:  # noqa: ANN401 - a type form
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


def _failures(dialect: Dialect) -> dict[int | str, dict[str, Any]]:
    """A copy of each: the framework writes into what it is given."""
    failures = {**_FAILURES, **(_PLAIN_FAILURES if dialect.plain else {})}
    return {status: dict(response) for status, response in failures.items()}


def _or_failure(dialect: Dialect, result: Any) -> Any:  # noqa: ANN401 - a type form
    return result if dialect.plain else result | AgentGymFailure
