"""How FastAPI's part tells failures: as the same problems as everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .answers import problem_answer
from .exchange import ABANDONED, EXCHANGE
from .methods import allow_header, methods_at
from .receipt import ClientGone
from .refusals import SchemaError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


_HTTP_CODES = {404: ErrorCode.NOT_FOUND, 405: ErrorCode.METHOD_NOT_ALLOWED}


def install_handlers(app: FastAPI) -> None:
    """Make every failure of the framework's routes a problem document."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(Exception, _defect)


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return _response(request, error)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _response(request, SchemaError.of(error.errors()))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _HTTP_CODES.get(error.status_code, ErrorCode.INVALID_REQUEST)
    headers = dict(error.headers or {})
    if code is ErrorCode.METHOD_NOT_ALLOWED:
        # The framework names the methods of the first route of the path only.
        headers["Allow"] = allow_header(methods_at(request.app.routes, request.scope))
    return _response(request, ServiceError(code), headers)


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=ABANDONED)


async def _defect(request: Request, error: Exception) -> Response:
    """The framework raises the error again after this answer, and the door logs it."""
    return _response(request, ServiceError(ErrorCode.INTERNAL))


def _response(request: Request, error: ServiceError, headers: Mapping[str, str] | None = None) -> Response:
    answer = problem_answer(request.scope[EXCHANGE], error)
    own = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(
        answer.body, answer.status, {**(headers or {}), **own}, media_type=answer.media_type.decode()
    )
