"""Translate AgentGym's operations into native ones.

An environment id stands for one episode after another: a reset releases the current instance and creates the
next one, with the task's number as its seed. Responses are computed from native results or from the
instance's trajectory, so that any replica can compute them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from sandbox_contract.episodes import CreateInstanceRequest, ReleaseInstanceRequest, StepRequest
from sandbox_contract.inspection import InstanceTrajectory
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import json_object
from sandbox_service.gateway.dispatch import idempotency_header
from sandbox_service.gateway.inspection import ENDED_CODES, LIVE_STATES, trajectory_page

from .dialects import EnvironmentTask
from .environment_ids import FIRST, EnvironmentIds, instance_name, later_number
from .episode_state import state_after_create, state_after_step, state_from_events

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sandbox_contract.base import JsonObject, Request
    from sandbox_contract.inspection import Event
    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.exchange import HttpExchange

    from .dialects import Payload, ReadRoute, ServerDialect


_ORDERED = ("agentgym", "all")


def task_order(registry: Registry, environment: str) -> Sequence[str]:
    """Return the tasks in AgentGym's order: the split ``agentgym``, else ``all``, else the default one."""
    catalog = registry.catalog(environment)
    descriptor = catalog.describe()
    names = {split.name for split in descriptor.splits}
    return catalog.task_ids(next((name for name in _ORDERED if name in names), descriptor.default_split))


class AgentGymOperations:
    """The operations that all servers share."""

    def __init__(self, dispatcher: Dispatcher, registry: Registry, parser: BodyParser) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._parser = parser
        self._ids = EnvironmentIds(dispatcher)
        self._orders: dict[str, Sequence[str]] = {}

    def order(self, environment: str) -> Sequence[str]:
        """Return the environment's tasks by number."""
        if environment not in self._orders:
            self._orders[environment] = task_order(self._registry, environment)
        return self._orders[environment]

    async def create(self, exchange: HttpExchange, dialect: ServerDialect) -> Payload:
        """Issue an environment id, and start its first episode if the server's create does."""
        order = self.order(dialect.environment)
        place = self._ids.issue(exchange, dialect.name)
        if dialect.opens_at_create:
            return await self._open(exchange, dialect, place, place % len(order))
        return place if dialect.plain else {"id": place}

    async def reset(self, exchange: HttpExchange, dialect: ServerDialect, request: BaseModel) -> Payload:
        """Start the task with the requested number."""
        place = _place_of(request)
        self._ids.require_valid(exchange, dialect.name, place)
        if getattr(request, "world_type", "Text") not in ("Text", "Embody", "Hybrid"):
            detail = 'world_type must be one of "Text", "Embody" and "Hybrid"'
            raise ServiceError(ErrorCode.INVALID_REQUEST, detail)
        order = self.order(dialect.environment)
        wanted = getattr(request, dialect.index)
        if wanted is None:
            wanted = 0 if dialect.wraps else secrets.randbelow(len(order))
        if dialect.wraps:
            wanted %= len(order)
        if wanted >= len(order):
            detail = f"unknown task {wanted}: {dialect.name} has {len(order)} tasks, numbered from 0"
            raise ServiceError(ErrorCode.UNKNOWN_TASK, detail)
        if not self._ids.is_unused(exchange, dialect.name, place):
            await self._release_current(exchange, dialect, place)
        return await self._open(exchange, dialect, place, wanted)

    async def step(self, exchange: HttpExchange, dialect: ServerDialect, request: BaseModel) -> Payload:
        """Send one action as the assistant's message."""
        message = Message(role="assistant", content=getattr(request, "action", ""))

        async def act(instance_id: str) -> Payload:
            native = StepRequest(instance_id=instance_id, message=message)
            try:
                result = await self._run(exchange, native, idempotency_header(exchange))
            except ServiceError as error:
                if error.code is not ErrorCode.INSTANCE_FINISHED:
                    raise
                raise _finished(_place_of(request)) from None
            return dialect.render_step(state_after_step(result))

        return await self._on_instance(exchange, dialect, _place_of(request), act)

    async def read_state(
        self, exchange: HttpExchange, dialect: ServerDialect, read: ReadRoute, request: BaseModel
    ) -> Payload:
        """Return the state of the episode, computed from its trajectory."""
        place = _place_of(request)

        async def render(instance_id: str) -> Payload:
            trajectory = await self._history(exchange, instance_id)
            state = state_from_events(trajectory.events)
            if state is None:
                raise ServiceError(ErrorCode.UNKNOWN_INSTANCE)
            if state.done and dialect.ends:
                raise _finished(place)
            return read.render(EnvironmentTask(place, self._index(dialect, trajectory.task_id)), state)

        try:
            return await self._on_instance(exchange, dialect, place, render)
        except ServiceError as error:
            if read.unopened is None or error.code is not ErrorCode.UNKNOWN_INSTANCE:
                raise
            self._ids.require_valid(exchange, dialect.name, place)
            return read.unopened

    async def close(self, exchange: HttpExchange, dialect: ServerDialect, request: BaseModel) -> Payload:
        """Release the environment's instance; return false if there is none any more."""
        place = _place_of(request)
        try:
            self._ids.require_valid(exchange, dialect.name, place)
        except ServiceError:
            return False
        return await self._release_current(exchange, dialect, place)

    async def list_live(self, exchange: HttpExchange, dialect: ServerDialect) -> Payload:
        """Return the environment ids with a live episode."""
        return list[JsonValue](await self._ids.list_live_ids(exchange, dialect.name))

    async def _open(self, exchange: HttpExchange, dialect: ServerDialect, place: int, index: int) -> Payload:
        """Create the instance of a task.

        The first instance of an id has a fixed number. If two replicas create it at once, the second gets
        DUPLICATE_INSTANCE, releases that instance and creates a later one.
        """
        first = self._ids.is_unused(exchange, dialect.name, place)
        try:
            return await self._create(
                exchange, dialect, EnvironmentTask(place, index), FIRST if first else later_number()
            )
        except ServiceError as error:
            if error.code is not ErrorCode.DUPLICATE_INSTANCE or not first:
                raise
        self._ids.drop_cached(exchange, dialect.name, place)
        await self._release_current(exchange, dialect, place)
        return await self._create(exchange, dialect, EnvironmentTask(place, index), later_number())

    async def _create(
        self, exchange: HttpExchange, dialect: ServerDialect, task: EnvironmentTask, number: int
    ) -> Payload:
        name = instance_name(dialect.name, task.id, number)
        exchange.instance_id = name
        task_id = self.order(dialect.environment)[task.index]
        native = CreateInstanceRequest(
            environment=dialect.environment, task_id=task_id, instance_id=name, seed=task.index
        )
        result = await self._run(exchange, native)
        self._ids.cache_instance(exchange, dialect.name, task.id, name)
        return dialect.render_reset(task, state_after_create(result))

    async def _release_current(self, exchange: HttpExchange, dialect: ServerDialect, place: int) -> bool:
        """Release the cached instance, or those that the fleet has. Return false if all had ended."""
        cached = self._ids.cached_instance(exchange, dialect.name, place)
        if cached is not None and await self._release(exchange, cached):
            self._ids.drop_cached(exchange, dialect.name, place)
            return True
        self._ids.drop_cached(exchange, dialect.name, place)
        found = await self._ids.list_instances(exchange, dialect.name, place)
        if not found:
            self._ids.cache_instance(exchange, dialect.name, place, None)
            return True
        live = [name for name, state in found.items() if state in LIVE_STATES]
        released = await asyncio.gather(*[self._release(exchange, name) for name in live])
        return any(released)

    async def _release(self, exchange: HttpExchange, instance_id: str) -> bool:
        try:
            result = await self._run(exchange, ReleaseInstanceRequest(instance_id=instance_id))
        except ServiceError as error:
            if error.code in ENDED_CODES:
                return False
            raise
        return bool(result["released"])

    async def _on_instance(
        self,
        exchange: HttpExchange,
        dialect: ServerDialect,
        place: int,
        act: Callable[[str], Awaitable[Payload]],
    ) -> Payload:
        """Call ``act`` with the live instance: the cached one, or the fleet's if that has ended."""
        self._ids.require_valid(exchange, dialect.name, place)
        cached = self._ids.cached_instance(exchange, dialect.name, place)
        if cached is not None:
            try:
                return await self._act(exchange, cached, act)
            except ServiceError as error:
                if error.code not in ENDED_CODES:
                    raise
        return await self._act(exchange, await self._ids.find_live(exchange, dialect.name, place), act)

    async def _act(
        self, exchange: HttpExchange, instance_id: str, act: Callable[[str], Awaitable[Payload]]
    ) -> Payload:
        exchange.instance_id = instance_id
        return await act(instance_id)

    async def _history(self, exchange: HttpExchange, instance_id: str) -> InstanceTrajectory:
        """Return the whole trajectory of a live instance that lacks none of its steps."""
        events: list[Event] = []
        cursor: str | None = None
        while True:
            parts = await trajectory_page(self._dispatcher, exchange, instance_id, cursor, current=True)
            page = await self._parser.apply(
                exchange.tenant, InstanceTrajectory.model_validate_json, b"".join(parts)
            )
            events += page.events
            cursor = page.next_cursor
            if cursor is None:
                return page.model_copy(update={"events": tuple(events)})

    def _index(self, dialect: ServerDialect, task_id: str) -> int:
        order = self.order(dialect.environment)
        return order.index(task_id) if task_id in order else -1

    async def _run(self, exchange: HttpExchange, native: Request, key: str | None = None) -> JsonObject:
        reply = await self._dispatcher.dispatch(exchange, native, key)
        return await self._parser.apply(exchange.tenant, json_object, reply.body)


def _place_of(request: BaseModel) -> int:
    place = getattr(request, "id", None)
    return int(place if place is not None else getattr(request, "env_idx", -1))


def _finished(place: int) -> ServiceError:
    return ServiceError(ErrorCode.INSTANCE_FINISHED, f"The task with environment {place} has finished.")
