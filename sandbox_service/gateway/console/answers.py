"""Answers of the console as pages: who looks at it, errors, and the form to sign in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from pydantic import TypeAdapter, ValidationError

from sandbox_contract.base import InstanceId
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import Rights
from sandbox_service.console.rendering import SECURITY_HEADERS, render
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.inspection import exchange_of
from sandbox_service.gateway.responses import HttpResponse, error_headers

from .access import cookie_key

if TYPE_CHECKING:
    from sandbox_service.gateway.exchange import HttpExchange


_T = TypeVar("_T")
_Handler = Callable[[_T, Request], Awaitable[Response]]
_ID: TypeAdapter[str] = TypeAdapter(InstanceId)
_HTML = b"text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person in front of the browser, as far as the service knows."""

    tenant: str
    signed_in: bool
    """Whether the browser has a key in the console's cookie."""
    may_write: bool
    """Whether the key may change something, such as release an instance."""


def visitor_of(exchange: HttpExchange) -> Visitor | None:
    """Return the visitor of an authenticated request; None before."""
    if not exchange.tenant:
        return None
    signed_in = cookie_key(exchange.headers) is not None
    return Visitor(exchange.tenant, signed_in, may_write=exchange.rights is Rights.WRITE)


def named_instance(request: Request) -> str:
    """Return the instance that the path names. Raises ServiceError(UNKNOWN_INSTANCE)."""
    return checked_id(request.path_params["instance_id"])


def checked_id(name: str) -> str:
    """Return the id of an instance. Raises ServiceError(UNKNOWN_INSTANCE) if it cannot be one."""
    try:
        return _ID.validate_python(name)
    except ValidationError:
        raise ServiceError(ErrorCode.UNKNOWN_INSTANCE) from None


def page(
    exchange: HttpExchange,
    template: str,
    context: Mapping[str, object],
    *,
    section: str = "",
    status: int = 200,
) -> HTMLResponse:
    """Return a page of the console."""
    text = render(template, visitor=visitor_of(exchange), section=section, **context)
    return HTMLResponse(text, status, SECURITY_HEADERS)


def error_page(exchange: HttpExchange, error: ServiceError) -> HttpResponse:
    """Return the page of an error; without a valid key, the form to sign in. Notes the error's code."""
    problem = error.problem(exchange.request_id, exchange.instance_id)
    exchange.error = problem.code
    if problem.code is ErrorCode.UNAUTHENTICATED:
        query = f"?{exchange.query.decode('latin-1')}" if exchange.query else ""
        refused = "The key is not valid." if cookie_key(exchange.headers) else ""
        text = render("login.html", visitor=None, section="", next=exchange.path + query, refused=refused)
    else:
        text = render("error.html", visitor=visitor_of(exchange), section="", problem=problem)
    headers = tuple((name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items())
    return HttpResponse(problem.status, text.encode(), _HTML, (*headers, *error_headers(problem)))


def as_page(handler: _Handler[_T]) -> _Handler[_T]:
    """Return a handler that answers errors with pages."""

    @wraps(handler)
    async def answer(routes: _T, request: Request) -> Response:
        try:
            return await handler(routes, request)
        except ServiceError as error:
            refused = error_page(exchange_of(request), error)
            headers = {name.decode(): value.decode() for name, value in refused.headers}
            return Response(refused.body, refused.status, headers, refused.media_type.decode())

    return answer
