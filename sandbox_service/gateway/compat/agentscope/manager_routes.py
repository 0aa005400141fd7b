"""The routes of the AgentScope sandbox manager, under ``/mgr``, for unmodified box classes.

A box class requests a sandbox, calls its methods by name, and releases it. The gateway has no state, so the
sandbox id contains the environment's name, and the ids of the box's instances begin with the sandbox id,
also where the client has chosen one: it may go on with its own or with the one that create returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.compat.errors import error_response
from sandbox_service.gateway.inspection import LIVE_STATES, instance_states
from sandbox_service.gateway.native import HotRoute
from sandbox_service.gateway.schema_errors import SchemaError

from .models import CompatRequest, ManagerCall, ManagerCreate, ManagerRelease, json_response

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.exchange import HttpExchange
    from sandbox_service.gateway.responses import HttpResponse

    from .routes import CompatRoutes


_MOST_CHARACTERS = 128
"""Length of an instance id."""
_INSTANCE_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.:-]{{0,{_MOST_CHARACTERS - 1}}}")
_SANDBOX_ID = re.compile(r"box-(?P<environment>[a-z0-9_-]{1,64})-[0-9a-f]{32}")


class ManagerRoutes:
    """Handlers of ``/mgr``."""

    def __init__(
        self, compat: CompatRoutes, dispatcher: Dispatcher, registry: Registry, parser: BodyParser
    ) -> None:
        self._compat = compat
        self._dispatcher = dispatcher
        self._registry = registry
        self._parser = parser

    def list_routes(self) -> Iterable[HotRoute]:
        """Return the manager's routes."""
        yield HotRoute("/mgr/create_from_pool", self.create_from_pool, error_response)
        yield HotRoute("/mgr/call_tool", self.call_tool, error_response)
        yield HotRoute("/mgr/release", self.release, error_response)

    async def create_from_pool(self, exchange: HttpExchange, body: bytes) -> HttpResponse:
        """Issue a sandbox id; boxes are assigned when instances are created."""
        environment = (
            (await self._parser.parse(exchange.tenant, ManagerCreate, body)).sandbox_type.strip().lower()
        )
        self._registry.catalog(environment)
        return json_response({"data": f"box-{environment}-{secrets.token_hex(16)}"})

    async def call_tool(self, exchange: HttpExchange, body: bytes) -> HttpResponse:
        """Call a method of the box class."""
        call = await self._parser.parse(exchange.tenant, ManagerCall, body)
        environment = _environment_of(call.identity)
        arguments = call.arguments or {}
        if isinstance(chosen := arguments.get("instance_id"), str) and chosen:
            arguments = {**arguments, "instance_id": _instance_of(call.identity, chosen)}
        match call.tool_name:
            case "get_task_ids" | "get_env_profile":
                params = {"split": arguments.get("split")}
                request = _compat_request(environment, {**arguments, "params": params})
                data = await self._compat.get_env_profile(exchange, request)
            case "create_instance":
                instance_id = arguments.get("instance_id") or f"{call.identity}.{secrets.token_hex(8)}"
                request = _compat_request(environment, {**arguments, "instance_id": instance_id})
                data = await self._compat.create(exchange, request)
            case "step":
                request = _compat_request(environment, {**arguments, "messages": arguments.get("action")})
                data = await self._compat.step(exchange, request)
            case "evaluate":
                data = await self._compat.evaluate(exchange, _compat_request(environment, arguments))
            case "release_instance":
                data = await self._compat.release(exchange, _compat_request(environment, arguments))
        return json_response({"data": data})

    async def release(self, exchange: HttpExchange, body: bytes) -> HttpResponse:
        """Release the live instances of the sandbox."""
        identity = (await self._parser.parse(exchange.tenant, ManagerRelease, body)).identity
        if not _SANDBOX_ID.fullmatch(identity):
            return json_response({"data": False})
        states = await instance_states(self._dispatcher, exchange, f"{identity}.")
        mine = [
            CompatRequest(instance_id=name)
            for name, state in states.items()
            if name.startswith(f"{identity}.") and state in LIVE_STATES
        ]
        await asyncio.gather(*[self._compat.release(exchange, each, keyed=False) for each in mine])
        return json_response({"data": True})


def _environment_of(identity: str) -> str:
    match = _SANDBOX_ID.fullmatch(identity)
    if match is None:
        raise ServiceError(
            ErrorCode.UNKNOWN_INSTANCE, "unknown sandbox id; request one with /mgr/create_from_pool"
        )
    return match["environment"]


def _instance_of(identity: str, chosen: str) -> str:
    """Return the id of an instance of the sandbox, of which a client may name the part that it chose.

    One that does not fit behind the sandbox id is hashed; one that is no id is left to be refused by itself.
    """
    if chosen.startswith(f"{identity}.") or not _INSTANCE_ID.fullmatch(chosen):
        return chosen
    room = _MOST_CHARACTERS - len(f"{identity}.")
    fits = len(chosen) <= room
    return f"{identity}.{chosen if fits else hashlib.sha256(chosen.encode()).hexdigest()[:room]}"


def _compat_request(environment: str, arguments: dict[str, JsonValue]) -> CompatRequest:
    """Return a method's arguments as a request; the environment is that of the sandbox by default."""
    fields = {**arguments, "env_type": arguments.get("env_type") or environment}
    try:
        return CompatRequest.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.from_pydantic(errors) from None
