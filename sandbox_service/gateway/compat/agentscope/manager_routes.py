"""The three calls of the AgentScope sandbox manager, under ``/mgr``: for unpatched box classes.

A box class asks for a sandbox, calls its methods by name, and gives it back. The gateway holds no state, so
the sandbox id itself says which environment it is of, and instances that the box makes carry it as a prefix.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.compat.refusals import refuse
from sandbox_service.gateway.inspection import LIVE, known_instances
from sandbox_service.gateway.native import HotRoute
from sandbox_service.gateway.refusals import SchemaError

from .models import CompatRequest, ManagerCall, ManagerCreate, ManagerRelease, json_answer

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.answers import Answer
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.exchange import Exchange
    from sandbox_service.gateway.verbs import Verbs

    from .routes import CompatRoutes


_SANDBOX_ID = re.compile(r"box-(?P<environment>[a-z0-9_]{1,64})-[0-9a-f]{32}")


class ManagerRoutes:
    """Handlers of ``/mgr``."""

    def __init__(self, compat: CompatRoutes, verbs: Verbs, registry: Registry, parser: BodyParser) -> None:
        self._compat = compat
        self._verbs = verbs
        self._registry = registry
        self._parser = parser

    def routes(self) -> Iterable[HotRoute]:
        """The manager's routes."""
        yield HotRoute("/mgr/create_from_pool", self.create_from_pool, refuse)
        yield HotRoute("/mgr/call_tool", self.call_tool, refuse)
        yield HotRoute("/mgr/release", self.release, refuse)

    async def create_from_pool(self, exchange: Exchange, body: bytes) -> Answer:
        """Name a sandbox; instances get their real boxes when they are created."""
        environment = (await self._parser.parse(ManagerCreate, body)).sandbox_type.strip().lower()
        self._registry.catalog(environment)
        return json_answer({"data": f"box-{environment}-{secrets.token_hex(16)}"})

    async def call_tool(self, exchange: Exchange, body: bytes) -> Answer:
        """Call one of the box class's methods."""
        call = await self._parser.parse(ManagerCall, body)
        environment = _environment_of(call.identity)
        arguments = call.arguments or {}
        match call.tool_name:
            case "get_task_ids" | "get_env_profile":
                params = {"split": arguments.get("split")}
                request = _common(environment, {**arguments, "params": params})
                data = await self._compat.get_env_profile(exchange, request)
            case "create_instance":
                chosen = arguments.get("instance_id") or f"{call.identity}.{secrets.token_hex(8)}"
                request = _common(environment, {**arguments, "instance_id": chosen})
                data = await self._compat.create(exchange, request)
            case "step":
                request = _common(environment, {**arguments, "messages": arguments.get("action")})
                data = await self._compat.step(exchange, request)
            case "evaluate":
                data = await self._compat.evaluate(exchange, _common(environment, arguments))
            case "release_instance":
                data = await self._compat.release(exchange, _common(environment, arguments))
        return json_answer({"data": data})

    async def release(self, exchange: Exchange, body: bytes) -> Answer:
        """End the instances that the sandbox made and that still live."""
        identity = (await self._parser.parse(ManagerRelease, body)).identity
        if not _SANDBOX_ID.fullmatch(identity):
            return json_answer({"data": False})
        mine = [
            CompatRequest(instance_id=status.instance_id)
            for status in await known_instances(self._verbs, exchange, f"{identity}.")
            if status.instance_id.startswith(f"{identity}.") and status.state in LIVE
        ]
        await asyncio.gather(*[self._compat.release(exchange, each) for each in mine])
        return json_answer({"data": True})


def _environment_of(identity: str) -> str:
    match = _SANDBOX_ID.fullmatch(identity)
    if match is None:
        raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, "there is no such sandbox")
    return match["environment"]


def _common(environment: str, arguments: dict[str, JsonValue]) -> CompatRequest:
    """The method's arguments as the common request; the sandbox knows the environment."""
    fields = {**arguments, "env_type": arguments.get("env_type") or environment}
    try:
        return CompatRequest.model_validate(fields)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise SchemaError.of(errors) from None
