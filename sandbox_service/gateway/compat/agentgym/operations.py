"""AgentGym's operations over the native verbs.

An id stands for a place that holds one episode after another: a reset releases the instance that is there
and creates the next one, with the task's number as its seed. Answers tell what results of our verbs or the
instance's record say, so that any replica can give them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from sandbox_contract.episodes import CreateInstanceRequest, ReleaseInstanceRequest, StepRequest
from sandbox_contract.inspection import Trajectory
from sandbox_contract.messages import Message
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.bodies import json_object
from sandbox_service.gateway.inspection import GONE, LIVE, trajectory_page
from sandbox_service.gateway.verbs import header_key

from .dialects import Place
from .places import FIRST, Places, instance_name, later_number
from .scenes import opened, recorded, stepped

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sandbox_contract.base import JsonObject, Request
    from sandbox_contract.inspection import Event
    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.bodies import BodyParser
    from sandbox_service.gateway.exchange import Exchange
    from sandbox_service.gateway.verbs import Verbs

    from .dialects import Dialect, Look, Told


_ORDERED = ("agentgym", "all")
_ENDED = frozenset({"release", "expire", "lost"})


def task_order(registry: Registry, environment: str) -> Sequence[str]:
    """The tasks that AgentGym's numbers mean: of the split ``agentgym``, else ``all``, else the default."""
    catalog = registry.catalog(environment)
    descriptor = catalog.describe()
    names = {split.name for split in descriptor.splits}
    return catalog.task_ids(next((name for name in _ORDERED if name in names), descriptor.default_split))


class AgentGymOperations:
    """What all servers do alike."""

    def __init__(self, verbs: Verbs, registry: Registry, parser: BodyParser) -> None:
        self._verbs = verbs
        self._registry = registry
        self._parser = parser
        self._places = Places(verbs)
        self._orders: dict[str, Sequence[str]] = {}

    def order(self, environment: str) -> Sequence[str]:
        """The environment's tasks by number; catalogs do not change."""
        if environment not in self._orders:
            self._orders[environment] = task_order(self._registry, environment)
        return self._orders[environment]

    async def create(self, exchange: Exchange, dialect: Dialect) -> Told:
        """A new place; its first episode too where the server's create tells an observation."""
        order = self.order(dialect.environment)
        place = self._places.issue(exchange, dialect.name)
        if dialect.opens_at_create:
            return await self._open(exchange, dialect, place, place % len(order))
        return place if dialect.plain else {"id": place}

    async def reset(self, exchange: Exchange, dialect: Dialect, request: BaseModel) -> Told:
        """Begin the task of a number."""
        place = _place_of(request)
        self._places.check(exchange, dialect.name, place)
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
            detail = f"there is no task {wanted}: {dialect.name} has {len(order)}, numbered from 0"
            raise ServiceError(ErrorCode.UNKNOWN_TASK, detail)
        if not self._places.unused(exchange, dialect.name, place):
            await self._vacate(exchange, dialect, place)
        return await self._open(exchange, dialect, place, wanted)

    async def step(self, exchange: Exchange, dialect: Dialect, request: BaseModel) -> Told:
        """Take one action, as the assistant's message."""
        message = Message(role="assistant", content=getattr(request, "action", ""))

        async def act(instance_id: str) -> Told:
            native = StepRequest(instance_id=instance_id, message=message)
            try:
                result = await self._run(exchange, native, header_key(exchange))
            except ServiceError as error:
                if error.code is not ErrorCode.INSTANCE_FINISHED:
                    raise
                raise _finished(_place_of(request)) from None
            return dialect.turn(stepped(result))

        return await self._on_instance(exchange, dialect, _place_of(request), act)

    async def look(self, exchange: Exchange, dialect: Dialect, look: Look, request: BaseModel) -> Told:
        """Tell about the episode, from its record: any replica can."""
        place = _place_of(request)

        async def tell(instance_id: str) -> Told:
            record = await self._history(exchange, instance_id)
            if record.events and record.events[-1].operation in _ENDED:
                raise ServiceError(ErrorCode.INSTANCE_RELEASED)
            scene = recorded(record.events)
            if scene is None:
                raise ServiceError(ErrorCode.UNKNOWN_INSTANCE)
            if scene.done and dialect.ends:
                raise _finished(place)
            return look.answer(Place(place, self._index(dialect, record.task_id)), scene)

        try:
            return await self._on_instance(exchange, dialect, place, tell)
        except ServiceError as error:
            if look.unopened is None or error.code is not ErrorCode.UNKNOWN_INSTANCE:
                raise
            self._places.check(exchange, dialect.name, place)
            return look.unopened

    async def close(self, exchange: Exchange, dialect: Dialect, request: BaseModel) -> Told:
        """End the place's episode; false when there is nothing any more to end."""
        place = _place_of(request)
        try:
            self._places.check(exchange, dialect.name, place)
        except ServiceError:
            return False
        return await self._vacate(exchange, dialect, place)

    async def living(self, exchange: Exchange, dialect: Dialect) -> Told:
        """Places with an episode."""
        return list[JsonValue](await self._places.living(exchange, dialect.name))

    async def _open(self, exchange: Exchange, dialect: Dialect, place: int, index: int) -> Told:
        """Create the instance of a task; another replica may have made this place's first one."""
        first = self._places.unused(exchange, dialect.name, place)
        try:
            return await self._create(
                exchange, dialect, Place(place, index), FIRST if first else later_number()
            )
        except ServiceError as error:
            if error.code is not ErrorCode.DUPLICATE_INSTANCE or not first:
                raise
        self._places.forget(exchange, dialect.name, place)
        await self._vacate(exchange, dialect, place)
        return await self._create(exchange, dialect, Place(place, index), later_number())

    async def _create(self, exchange: Exchange, dialect: Dialect, place: Place, number: int) -> Told:
        name = instance_name(dialect.name, place.id, number)
        exchange.instance_id = name
        task_id = self.order(dialect.environment)[place.index]
        native = CreateInstanceRequest(
            environment=dialect.environment, task_id=task_id, instance_id=name, seed=place.index
        )
        result = await self._run(exchange, native)
        self._places.remember(exchange, dialect.name, place.id, name)
        return dialect.opening(place, opened(result))

    async def _vacate(self, exchange: Exchange, dialect: Dialect, place: int) -> bool:
        """Release what is there: the remembered instance, or what the fleet knows. False if all had ended."""
        remembered = self._places.recall(exchange, dialect.name, place)
        if remembered is not None and await self._release(exchange, remembered):
            self._places.forget(exchange, dialect.name, place)
            return True
        self._places.forget(exchange, dialect.name, place)
        found = await self._places.all(exchange, dialect.name, place)
        if not found:
            self._places.remember(exchange, dialect.name, place, None)
            return True
        live = [status.instance_id for status in found if status.state in LIVE]
        released = await asyncio.gather(*[self._release(exchange, name) for name in live])
        return any(released)

    async def _release(self, exchange: Exchange, instance_id: str) -> bool:
        try:
            result = await self._run(exchange, ReleaseInstanceRequest(instance_id=instance_id))
        except ServiceError as error:
            if error.code in GONE:
                return False
            raise
        return bool(result["released"])

    async def _on_instance(
        self,
        exchange: Exchange,
        dialect: Dialect,
        place: int,
        act: Callable[[str], Awaitable[Told]],
    ) -> Told:
        """Act on the living instance; when the remembered one has ended, on the one that the fleet has."""
        self._places.check(exchange, dialect.name, place)
        remembered = self._places.recall(exchange, dialect.name, place)
        if remembered is not None:
            try:
                return await self._act(exchange, remembered, act)
            except ServiceError as error:
                if error.code not in GONE:
                    raise
        return await self._act(exchange, await self._places.find(exchange, dialect.name, place), act)

    async def _act(self, exchange: Exchange, instance_id: str, act: Callable[[str], Awaitable[Told]]) -> Told:
        exchange.instance_id = instance_id
        return await act(instance_id)

    async def _history(self, exchange: Exchange, instance_id: str) -> Trajectory:
        """The whole trajectory, page by page."""
        events: list[Event] = []
        cursor: str | None = None
        while True:
            parts = await trajectory_page(self._verbs, exchange, instance_id, cursor)
            page = await self._parser.apply(Trajectory.model_validate_json, b"".join(parts))
            events += page.events
            cursor = page.next_cursor
            if cursor is None:
                return page.model_copy(update={"events": tuple(events)})

    def _index(self, dialect: Dialect, task_id: str) -> int:
        order = self.order(dialect.environment)
        return order.index(task_id) if task_id in order else -1

    async def _run(self, exchange: Exchange, native: Request, key: str | None = None) -> JsonObject:
        reply = await self._verbs.run(exchange, native, key)
        return await self._parser.apply(json_object, reply.body)


def _place_of(request: BaseModel) -> int:
    place = getattr(request, "id", None)
    return int(place if place is not None else getattr(request, "env_idx", -1))


def _finished(place: int) -> ServiceError:
    return ServiceError(ErrorCode.INSTANCE_FINISHED, f"The task with environment {place} has finished.")
