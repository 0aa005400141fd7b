"""The AgentScope Runtime and AgentEvolver protocol at the root path, translated into native operations.

Unmodified clients of both work. Defects of their servers are not reproduced: a second create never takes over
an instance id, an environment gets only parameters that it declares, and errors are typed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from sandbox_contract.episodes import (
    CreateInstanceRequest,
    EvaluateRequest,
    GetEnvProfileRequest,
    ReleaseInstanceRequest,
)
from sandbox_contract.inspection import InstanceTrajectory
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import json_object
from sandbox_service.gateway.compat.errors import error_response
from sandbox_service.gateway.dispatch import idempotency_header
from sandbox_service.gateway.inspection import ENDED_CODES, LIVE_STATES, instance_status, trajectory_page
from sandbox_service.gateway.native import HotRoute, env_profile
from sandbox_service.gateway.responses import HttpResponse
from sandbox_service.gateway.schema_errors import SchemaError

from .models import CompatRequest, json_response, success
from .translation import (
    CounterpartError,
    declared_params,
    encode_step,
    instance_id_of,
    messages_of,
    native_request,
    opening_of,
    refuse_counterpart,
    required,
    step_body,
    step_data,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue

    from sandbox_contract.base import JsonObject, Request
    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.dispatch import Dispatcher, EncodedRequest
    from sandbox_service.gateway.exchange import HttpExchange


_T = TypeVar("_T")


class CompatRoutes:
    """The protocol's operations; each takes the common request and returns the ``data`` of the response."""

    def __init__(self, dispatcher: Dispatcher, registry: Registry, parser: BodyParser) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._parser = parser

    def list_routes(self) -> Iterable[HotRoute]:
        """Return the protocol's POST routes."""
        for path, operation in (
            ("/get_env_profile", self.get_env_profile),
            ("/create", self.create),
            ("/evaluate", self.evaluate),
            ("/get_info", self.get_info),
        ):
            yield HotRoute(path, self._handler(operation), error_response)
        yield HotRoute("/step", self._handle_step, error_response)
        yield HotRoute("/release", self._handle_release, error_response)

    def _handler(
        self, operation: Callable[[HttpExchange, CompatRequest], Awaitable[JsonValue]]
    ) -> Callable[[HttpExchange, bytes], Awaitable[HttpResponse]]:
        async def handle(exchange: HttpExchange, body: bytes) -> HttpResponse:
            data = await operation(exchange, await self._parser.parse(exchange.tenant, CompatRequest, body))
            return HttpResponse(200, success(data))

        return handle

    async def _handle_step(self, exchange: HttpExchange, body: bytes) -> HttpResponse:
        step = await self._parser.read(exchange.tenant, CompatRequest, body, encode_step)
        return HttpResponse(200, await self._step(exchange, step, step_body))

    async def _handle_release(self, exchange: HttpExchange, body: bytes) -> HttpResponse:
        released = await self.release(
            exchange, await self._parser.parse(exchange.tenant, CompatRequest, body)
        )
        return json_response({"success": released, "data": None})

    async def get_env_profile(self, exchange: HttpExchange, request: CompatRequest) -> JsonValue:
        """Return the task ids of a split, by default of ``train``."""
        split = (request.params or {}).get("split") or "train"
        wanted = native_request(GetEnvProfileRequest, environment=_environment_of(request), split=split)
        return list(env_profile(self._registry, wanted).task_ids)

    async def create(self, exchange: HttpExchange, request: CompatRequest) -> JsonValue:
        """Start an episode. A repeated create of a chosen id returns the first result again.

        One whose counterpart is a model is released and refused: only the native routes can play it.
        """
        name = _environment_of(request)
        environment = self._registry.catalog(name).describe()
        native = native_request(
            CreateInstanceRequest,
            environment=name,
            task_id=required(request.task_id, "task_id"),
            instance_id=request.instance_id or None,
            params=declared_params(environment.params, request.params or {}),
            idempotency_key=_key_of(request.instance_id) if request.instance_id else None,
        )
        result = await self._run(exchange, native, keyed=False)
        try:
            refuse_counterpart(_object(result["info"]))
        except CounterpartError:
            abandoned = CompatRequest(instance_id=str(result["instance_id"]))
            await self.release(exchange, abandoned, keyed=False)
            raise
        if request.instance_id:
            await self._check_live(exchange, request.instance_id)
        offered = result.get("tools")
        tools = offered if isinstance(offered, list) and offered else _dumped(environment.tools)
        info = {**_object(result["info"]), "instance_id": result["instance_id"], "task_id": result["task_id"]}
        state = opening_of(messages_of(result), tools, environment.action_format)
        return {"state": state, "info": info}

    async def step(self, exchange: HttpExchange, request: CompatRequest) -> JsonValue:
        """Take one assistant message.

        An instance that waits for a counterpart is released and refused, as by ``create``.
        """
        return await self._step(exchange, encode_step(request), step_data)

    async def evaluate(self, exchange: HttpExchange, request: CompatRequest) -> JsonValue:
        """Grade the instance: return a number if ``sparse`` is true, an object otherwise."""
        sparse = (request.params or {}).get("sparse") is True
        instance_id = required(request.instance_id, "instance_id")
        params = {"sparse": True} if sparse else {}
        result = await self._run(
            exchange, native_request(EvaluateRequest, instance_id=instance_id, params=params)
        )
        if sparse:
            return result["score"]
        return {**_object(result.get("details")), "score": result["score"], "success": result["success"]}

    async def get_info(self, exchange: HttpExchange, request: CompatRequest) -> JsonValue:
        """Return the instance's state and the tools that its create offered.

        An instance that may lack steps after a recovery is an error here as on every other route.
        """
        instance_id = instance_id_of(request)
        status = await instance_status(self._dispatcher, exchange, instance_id)
        live = status.state in LIVE_STATES
        parts = await trajectory_page(self._dispatcher, exchange, instance_id, limit=1, current=live)
        offered = await self._parser.apply(exchange.tenant, _offered_tools, b"".join(parts))
        environment = self._registry.catalog(status.environment).describe()
        shown = {"instance_id", "environment", "task_id", "state", "step_index"}
        return {
            **status.model_dump(mode="json", include=shown),
            "tools": offered or _dumped(environment.tools),
        }

    async def release(self, exchange: HttpExchange, request: CompatRequest, *, keyed: bool = True) -> bool:
        """Release the instance; return false if there is none, which is not an error in this protocol.

        ``keyed`` says that the exchange's idempotency key is that of this release and of no other operation.
        """
        instance_id = required(request.instance_id, "instance_id")
        try:
            native = native_request(ReleaseInstanceRequest, instance_id=instance_id)
            result = await self._run(exchange, native, keyed=keyed)
        except SchemaError:
            return False
        except ServiceError as error:
            if error.code in ENDED_CODES:
                return False
            raise
        return bool(result["released"])

    async def _step(
        self, exchange: HttpExchange, step: EncodedRequest, translate: Callable[[bytes], _T]
    ) -> _T:
        """Run a step and translate its result."""
        reply = await self._dispatcher.send(exchange, step, idempotency_header(exchange))
        try:
            return await self._parser.apply(exchange.tenant, translate, reply.body)
        except CounterpartError:
            # The client does not see the episode's end, so what it has come to must not be graded.
            await self.release(exchange, CompatRequest(instance_id=step.instance_id), keyed=False)
            raise

    async def _check_live(self, exchange: HttpExchange, instance_id: str) -> None:
        """Raise ServiceError(DUPLICATE_INSTANCE) if a repeated create returned an instance that has ended."""
        try:
            state = (await instance_status(self._dispatcher, exchange, instance_id)).state
        except ServiceError as error:
            if error.code not in ENDED_CODES:
                raise
            state = "released"
        if state not in LIVE_STATES:
            detail = f"the instance {instance_id!r} has ended; choose another id"
            raise ServiceError(ErrorCode.DUPLICATE_INSTANCE, detail)

    async def _run(self, exchange: HttpExchange, native: Request, *, keyed: bool = True) -> JsonObject:
        reply = await self._dispatcher.dispatch(
            exchange, native, idempotency_header(exchange) if keyed else None
        )
        return await self._parser.apply(exchange.tenant, json_object, reply.body)


def _offered_tools(page: bytes) -> JsonValue:
    """Return the tools of the create with which a page of a trajectory begins."""
    created = InstanceTrajectory.model_validate_json(page).events
    return (created[0].result or {}).get("tools") if created else None


def _key_of(instance_id: str) -> str:
    """Return the key of a create with a chosen id; hashed, since an id may be as long as a key."""
    return f"create:{hashlib.sha256(instance_id.encode()).hexdigest()}"


def _environment_of(request: CompatRequest) -> str:
    return required(request.env_type, "env_type").strip().lower()


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _dumped(models: Iterable[BaseModel]) -> list[JsonValue]:
    return [each.model_dump(mode="json", exclude_none=True) for each in models]
