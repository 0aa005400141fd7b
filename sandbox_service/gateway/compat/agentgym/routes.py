"""The wire protocol of AgentGym's environment servers, under ``/agentgym/<server>``.

Unmodified environment clients of textcraft, babyai, sciworld, alfworld and webshop work when this is their
``env_server_base``. Errors have the protocol's form: ``{"error": ...}`` with status 200 where its server did
that; what the protocol does not know (keys, sizes, malformed bodies) keeps its own status.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.gateway.answers import Answer, error_headers
from sandbox_service.gateway.compat import refusals
from sandbox_service.gateway.native import HotRoute
from sandbox_service.gateway.refusals import SchemaError

from .dialects import DIALECTS
from .operations import AgentGymOperations

if TYPE_CHECKING:
    from sandbox_service.environments.registry import Registry
    from sandbox_service.errors import ServiceError
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.exchange import Exchange
    from sandbox_service.gateway.verbs import Verbs

    from .dialects import Dialect, Look, Told

    Operation: TypeAlias = Callable[[Exchange, Dialect, BaseModel], Awaitable[Told]]


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

    def __init__(self, verbs: Verbs, registry: Registry, parser: BodyParser) -> None:
        self._operations = AgentGymOperations(verbs, registry, parser)
        self._parser = parser

    def routes(self) -> Iterable[HotRoute]:
        """POST create, reset, step, close, and what each server tells by GET."""
        for dialect in DIALECTS:
            yield from self._routes(dialect)

    def _routes(self, dialect: Dialect) -> Iterable[HotRoute]:
        operations = self._operations
        path = f"/agentgym/{dialect.name}"

        def route(method: str, name: str, handle: Callable[[Exchange, bytes], Awaitable[Told]]) -> HotRoute:
            async def answer(exchange: Exchange, body: bytes) -> Answer:
                return _answer(await handle(exchange, body))

            return HotRoute(path + name, answer, _refusal_of(dialect), method)

        async def greet(exchange: Exchange, body: bytes) -> Told:
            return dialect.greeting

        yield route("GET", "", greet)
        yield route("GET", "/", greet)
        yield route("POST", "/create", lambda exchange, _: operations.create(exchange, dialect))
        for name, model, operation in (
            ("/reset", dialect.reset, operations.reset),
            ("/step", dialect.act, operations.step),
            ("/close", dialect.place, operations.close),
        ):
            yield route("POST", name, self._posted(dialect, model, operation))
        for name, look in dialect.looks.items():
            yield route("GET", f"/{name}", self._asked(dialect, look))
        if dialect.plain:
            yield route("GET", "/list_envs", lambda exchange, _: operations.living(exchange, dialect))

    def _posted(
        self, dialect: Dialect, model: type[BaseModel], operation: Operation
    ) -> Callable[[Exchange, bytes], Awaitable[Told]]:
        async def handle(exchange: Exchange, body: bytes) -> Told:
            return await operation(exchange, dialect, await self._parser.parse(model, body))

        return handle

    def _asked(self, dialect: Dialect, look: Look) -> Callable[[Exchange, bytes], Awaitable[Told]]:
        async def handle(exchange: Exchange, body: bytes) -> Told:
            return await self._operations.look(exchange, dialect, look, _query(dialect.place, exchange.query))

        return handle


def _query(model: type[BaseModel], query: bytes) -> BaseModel:
    """The parameters behind a path. Raises SchemaError."""
    try:
        return model.model_validate(dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.of(errors) from None


def _answer(told: Told) -> Answer:
    if isinstance(told, BaseModel):
        return Answer(200, told.model_dump_json().encode())
    return Answer(200, json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode())


def _refusal_of(dialect: Dialect) -> Callable[[Exchange, ServiceError], Answer]:
    """How a server tells errors. One that answers bare values has the statuses to tell them by."""

    def refuse(exchange: Exchange, error: ServiceError) -> Answer:
        problem = error.problem(exchange.request_id, exchange.instance_id)
        if isinstance(error, SchemaError) or problem.code in _KEEP_STATUS:
            return refusals.refuse(exchange, error)
        exchange.error = problem.code
        told = {"error": problem.detail, "code": problem.code, "failure_class": problem.failure_class}
        body = json.dumps(told, ensure_ascii=False).encode()
        # Its client repeats what is answered 503, and gives up on anything else.
        status = (503 if problem.status == 429 else problem.status) if dialect.plain else 200
        return Answer(status, body, headers=error_headers(problem))

    return refuse
