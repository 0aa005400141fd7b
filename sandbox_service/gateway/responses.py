"""HTTP responses outside of FastAPI: status, headers and body, problem documents, and sending them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sandbox_contract.problems import PROBLEM_MEDIA_TYPE, ErrorCode

if TYPE_CHECKING:
    from starlette.types import Send

    from sandbox_contract.problems import Problem
    from sandbox_service.errors import ServiceError

    from .exchange import HttpExchange


JSON = b"application/json"
_PROBLEM = PROBLEM_MEDIA_TYPE.encode()

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response, except for the headers that every response has."""

    status: int
    body: bytes
    media_type: bytes = JSON
    headers: tuple[Header, ...] = ()
    counted: bool = False
    """Its parts were counted when they came, among the answers in memory."""


ErrorResponse: TypeAlias = "Callable[[HttpExchange, ServiceError], HttpResponse]"
"""The function that makes the response of an error."""


def problem_response(exchange: HttpExchange, error: ServiceError) -> HttpResponse:
    """Return the RFC 9457 problem of an error, and note its code on the exchange."""
    problem = error.problem(exchange.request_id, exchange.instance_id)
    exchange.error = problem.code
    body = problem.model_dump_json(exclude_none=True).encode()
    return HttpResponse(problem.status, body, _PROBLEM, error_headers(problem))


def error_headers(problem: Problem) -> tuple[Header, ...]:
    """Return the headers of an error: Retry-After in whole seconds, and WWW-Authenticate."""
    headers: tuple[Header, ...] = ()
    if problem.retry_after_s is not None and problem.status in (429, 503):
        headers += ((b"retry-after", b"%d" % max(1, math.ceil(problem.retry_after_s))),)
    if problem.code is ErrorCode.UNAUTHENTICATED:
        headers += ((b"www-authenticate", b"Bearer"),)
    return headers


async def send_response(send: Send, exchange: HttpExchange, response: HttpResponse) -> None:
    """Send a response with the request's id; a HEAD request gets the headers alone."""
    await start_response(send, exchange, response)
    body = b"" if exchange.method == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body})


async def start_response(send: Send, exchange: HttpExchange, response: HttpResponse) -> None:
    """Send the status and the headers of a response."""
    exchange.status = response.status
    headers = [
        (b"content-type", response.media_type),
        (b"content-length", b"%d" % len(response.body)),
        (b"x-request-id", exchange.request_id.encode()),
        *response.headers,
        *exchange.last_headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


def timing_of(meta: Mapping[str, object]) -> dict[str, float]:
    """Return the milliseconds of each phase (queue, route, run) from the meta of a reply."""
    timing = {}
    for phase in ("queue", "route", "run"):
        value = meta.get(f"{phase}_ms")
        if isinstance(value, (int, float)):
            timing[phase] = float(value)
    return timing


def server_timing(timing: Mapping[str, float]) -> tuple[Header, ...]:
    """Return the Server-Timing header of an operation's phases."""
    if not timing:
        return ()
    value = ", ".join(f"{phase};dur={ms:.3f}" for phase, ms in timing.items())
    return ((b"server-timing", value.encode()),)
