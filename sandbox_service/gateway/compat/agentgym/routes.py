"""The wire protocol of AgentGym's environment servers, under ``/agentgym/<server>``.

Unmodified environment clients of textcraft, babyai, sciworld, alfworld and webshop work with this path as
their ``env_server_base``. Errors have the protocol's form, ``{"error": ...}`` with status 200 as its servers
send them. Errors that the protocol does not have (keys, sizes, malformed bodies) keep their status.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.gateway.compat import errors
from sandbox_service.gateway.native import HotRoute
from sandbox_service.gateway.responses import HttpResponse, error_headers
from sandbox_service.gateway.schema_errors import SchemaError

from .dialects import DIALECTS
from .operations import AgentGymOperations

if TYPE_CHECKING:
    from sandbox_contract.problems import Problem
    from sandbox_service.environments.registry import Registry
    from sandbox_service.errors import ServiceError
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.exchange import HttpExchange

    from .dialects import Payload, ReadRoute, ServerDialect

    Operation: TypeAlias = Callable[[HttpExchange, ServerDialect, BaseModel], Awaitable[Payload]]


_KEEP_STATUS = frozenset(
    {
        ErrorCode.UNAUTHENTICATED,
        ErrorCode.FORBIDDEN,
        ErrorCode.METHOD_NOT_ALLOWED,
        ErrorCode.BODY_TOO_LARGE,
        ErrorCode.MALFORMED_JSON,
        ErrorCode.JSON_TOO_DEEP,
    }
)


class AgentGymRoutes:
    """The routes of every server."""

    def __init__(self, dispatcher: Dispatcher, registry: Registry, parser: BodyParser) -> None:
        self._operations = AgentGymOperations(dispatcher, registry, parser)
        self._parser = parser

    def list_routes(self) -> Iterable[HotRoute]:
        """Return the routes POST create, reset, step and close, and the GET routes of each server."""
        for dialect in DIALECTS:
            yield from self._routes(dialect)

    def _routes(self, dialect: ServerDialect) -> Iterable[HotRoute]:
        operations = self._operations
        path = f"/agentgym/{dialect.name}"

        def route(
            method: str, name: str, handle: Callable[[HttpExchange, bytes], Awaitable[Payload]]
        ) -> HotRoute:
            async def respond(exchange: HttpExchange, body: bytes) -> HttpResponse:
                return _response(await handle(exchange, body))

            return HotRoute(path + name, respond, _error_response_of(dialect), method)

        async def hello(exchange: HttpExchange, body: bytes) -> Payload:
            return dialect.hello

        yield route("GET", "", hello)
        yield route("GET", "/", hello)
        yield route("POST", "/create", lambda exchange, _: operations.create(exchange, dialect))
        for name, model, operation in (
            ("/reset", dialect.reset, operations.reset),
            ("/step", dialect.step, operations.step),
            ("/close", dialect.id_request, operations.close),
        ):
            yield route("POST", name, self._post_handler(dialect, model, operation))
        for name, read in dialect.reads.items():
            yield route("GET", f"/{name}", self._read_handler(dialect, read))
        if dialect.plain:
            yield route("GET", "/list_envs", lambda exchange, _: operations.list_live(exchange, dialect))

    def _post_handler(
        self, dialect: ServerDialect, model: type[BaseModel], operation: Operation
    ) -> Callable[[HttpExchange, bytes], Awaitable[Payload]]:
        async def handle(exchange: HttpExchange, body: bytes) -> Payload:
            return await operation(exchange, dialect, await self._parser.parse(exchange.tenant, model, body))

        return handle

    def _read_handler(
        self, dialect: ServerDialect, read: ReadRoute
    ) -> Callable[[HttpExchange, bytes], Awaitable[Payload]]:
        async def handle(exchange: HttpExchange, body: bytes) -> Payload:
            return await self._operations.read_state(
                exchange, dialect, read, _parse_query(dialect.id_request, exchange.query)
            )

        return handle


def _parse_query(model: type[BaseModel], query: bytes) -> BaseModel:
    """Parse the query parameters of a URL. Raises SchemaError."""
    try:
        return model.model_validate(dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.from_pydantic(errors) from None


def _response(payload: Payload) -> HttpResponse:
    if isinstance(payload, BaseModel):
        return HttpResponse(200, payload.model_dump_json().encode())
    return HttpResponse(200, json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def _error_response_of(dialect: ServerDialect) -> Callable[[HttpExchange, ServiceError], HttpResponse]:
    """Return the function that makes a server's error responses."""

    def error_response(exchange: HttpExchange, error: ServiceError) -> HttpResponse:
        problem = error.problem(exchange.request_id, exchange.instance_id)
        if isinstance(error, SchemaError) or problem.code in _KEEP_STATUS:
            return errors.error_response(exchange, error)
        exchange.error = problem.code
        failure = {"error": problem.detail, "code": problem.code, "failure_class": problem.failure_class}
        body = json.dumps(failure, ensure_ascii=False).encode()
        status = _plain_status(problem) if dialect.plain else 200
        return HttpResponse(status, body, headers=error_headers(problem))

    return error_response


def _plain_status(problem: Problem) -> int:
    """Return the status of an error for WebShop's client, which repeats a request after 503 and no other one.

    What it sends has no key, so that a step whose outcome is unknown would be executed twice.
    """
    if problem.retryable and problem.code is not ErrorCode.OUTCOME_UNKNOWN:
        return 503 if problem.status == 429 else problem.status
    return 500 if problem.status == 503 else problem.status
