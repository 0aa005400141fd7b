"""Answer the errors of FastAPI's routes with problem documents, and the Allow header of rejected methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .body_reader import ClientDisconnected
from .exchange import ABANDONED, EXCHANGE
from .responses import problem_response
from .schema_errors import SchemaError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from starlette.routing import BaseRoute
    from starlette.types import Scope


_SHOWN_PATH = 200
_HTTP_CODES = {404: ErrorCode.NOT_FOUND, 405: ErrorCode.METHOD_NOT_ALLOWED}


def install_handlers(app: FastAPI) -> None:
    """Have every error of the application's routes answered with a problem document."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnected, _client_disconnected)
    app.add_exception_handler(Exception, _defect)


def with_head(methods: Iterable[str]) -> set[str]:
    """Return the methods, with HEAD if GET is among them."""
    known = set(methods)
    return known | {"HEAD"} if "GET" in known else known


def allow_header(methods: Iterable[str]) -> str:
    """Return the value of an Allow header."""
    return ", ".join(sorted(with_head(methods)))


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return _response(request, error)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _response(request, SchemaError.from_pydantic(error.errors()))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, ErrorCode.INVALID_REQUEST)
    headers = dict(error.headers or {})
    if code is ErrorCode.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the path's first route only.
        headers["Allow"] = allow_header(_methods_at(request.app.routes, request.scope))
    detail = _no_route(request) if code is ErrorCode.NOT_FOUND else ""
    return _response(request, ServiceError(code, detail), headers)


def _no_route(request: Request) -> str:
    return f"there is no route {request.method} {request.scope['path'][:_SHOWN_PATH]!r}"


async def _client_disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=ABANDONED)


async def _defect(request: Request, error: Exception) -> Response:
    """Answer an unexpected error; Starlette raises it again after this response, and Gateway logs it."""
    return _response(request, ServiceError(ErrorCode.INTERNAL))


def _methods_at(routes: Iterable[BaseRoute], scope: Scope) -> set[str]:
    """Return the methods of all routes that match the path of a request."""
    found: set[str] = set()
    for route in routes:
        if route.matches(scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


def _response(request: Request, error: ServiceError, headers: Mapping[str, str] | None = None) -> Response:
    problem = problem_response(request.scope[EXCHANGE], error)
    own = {name.decode(): value.decode() for name, value in problem.headers}
    return Response(
        problem.body, problem.status, {**(headers or {}), **own}, media_type=problem.media_type.decode()
    )
