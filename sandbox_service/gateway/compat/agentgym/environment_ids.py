"""AgentGym's integer environment ids, and the instances that they stand for.

The gateway has several replicas and no shared state: an id is random and carries a check value of tenant and
server, and every reset creates an instance named ``agentgym-<server>-<id>-<number>``. A replica caches which
of them is live and otherwise asks the fleet, which also knows from the records those that were handed over.
The cache may be stale, since another replica may have released the instance, so callers handle the errors of
ended instances.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.inspection import LIVE_STATES, instance_states

if TYPE_CHECKING:
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.exchange import HttpExchange


FIRST = 0
"""Number of an id's first instance; later ones have the time in microseconds, which needs no state."""
_CHECK_BITS = 12
_NUMBER_BITS = 40
_MOST_CACHED = 65_536
_ENDINGS = {
    "expired": (
        ErrorCode.INSTANCE_EXPIRED,
        "The task with environment {id} was idle for too long and has been released.",
    ),
    "lost": (ErrorCode.INSTANCE_LOST, "The task with environment {id} was lost with its sandbox."),
}


def instance_name(server: str, place: int, number: int) -> str:
    """Return the id of the instance of one reset."""
    return f"agentgym-{server}-{place}-{number}"


def later_number() -> int:
    """Return a number greater than all earlier ones of an id."""
    return time.time_ns() // 1_000


class EnvironmentIds:
    """Issues ids and finds their instances; caches those that this replica has seen."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._cached: OrderedDict[tuple[str, str, int], str | None] = OrderedDict()

    def issue(self, exchange: HttpExchange, server: str) -> int:
        """Return a new id without an instance."""
        number = secrets.randbits(_NUMBER_BITS)
        place = number << _CHECK_BITS | _check(exchange.tenant, server, number)
        self._keep(exchange, server, place, None)
        return place

    def require_valid(self, exchange: HttpExchange, server: str, place: int) -> None:
        """Raise ServiceError(UNKNOWN_INSTANCE) for an id that create did not issue to this tenant."""
        number = place >> _CHECK_BITS
        if place != (number << _CHECK_BITS | _check(exchange.tenant, server, number)):
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"The id {place} is not valid.")

    def is_unused(self, exchange: HttpExchange, server: str, place: int) -> bool:
        """Return whether this replica issued the id and created no instance; another one may have."""
        return self._cached.get((exchange.tenant, server, place), "") is None

    def cached_instance(self, exchange: HttpExchange, server: str, place: int) -> str | None:
        """Return the cached instance, if any."""
        return self._cached.get((exchange.tenant, server, place))

    def cache_instance(
        self, exchange: HttpExchange, server: str, place: int, instance_id: str | None
    ) -> None:
        """Cache the live instance of an id, or None if it has none yet."""
        self._keep(exchange, server, place, instance_id)

    def drop_cached(self, exchange: HttpExchange, server: str, place: int) -> None:
        """Drop the cached instance of an id."""
        self._cached.pop((exchange.tenant, server, place), None)

    async def list_instances(self, exchange: HttpExchange, server: str, place: int) -> dict[str, str]:
        """Return the states of all instances of the id that the fleet knows, the latest last."""
        prefix = instance_name(server, place, 0)[:-1]
        states = await instance_states(self._dispatcher, exchange, prefix)
        numbers = {name: _number(name) for name in states if name.startswith(prefix)}
        found = [(number, name) for name, number in numbers.items() if number is not None]
        return {name: states[name] for _, name in sorted(found)}

    async def find_live(self, exchange: HttpExchange, server: str, place: int) -> str:
        """Return the live instance from the fleet. Raises ServiceError with the reason if there is none."""
        found = await self.list_instances(exchange, server, place)
        for name, state in reversed(found.items()):
            if state in LIVE_STATES:
                self._keep(exchange, server, place, name)
                return name
        self.drop_cached(exchange, server, place)
        if not found:
            detail = f"The task with environment {place} has not been reset."
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, detail)
        deleted = (ErrorCode.INSTANCE_RELEASED, "The task with environment {id} has been deleted.")
        code, detail = _ENDINGS.get(list(found.values())[-1], deleted)
        raise ServiceError(code, detail.format(id=place))

    async def list_live_ids(self, exchange: HttpExchange, server: str) -> list[int]:
        """Return the ids with a live instance."""
        states = await instance_states(self._dispatcher, exchange, f"agentgym-{server}-")
        live = (_place(server, name) for name, state in states.items() if state in LIVE_STATES)
        return sorted({place for place in live if place is not None})

    def _keep(self, exchange: HttpExchange, server: str, place: int, instance_id: str | None) -> None:
        key = (exchange.tenant, server, place)
        self._cached[key] = instance_id
        self._cached.move_to_end(key)
        if len(self._cached) > _MOST_CACHED:
            self._cached.popitem(last=False)


def _check(tenant: str, server: str, number: int) -> int:
    digest = hashlib.blake2b(f"{tenant}/{server}/{number}".encode(), digest_size=2).digest()
    return int.from_bytes(digest, "big") >> (16 - _CHECK_BITS)


def _number(instance_id: str) -> int | None:
    number = instance_id.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else None


def _place(server: str, instance_id: str) -> int | None:
    head = f"agentgym-{server}-"
    place = instance_id.removeprefix(head).partition("-")[0]
    return int(place) if instance_id.startswith(head) and place.isascii() and place.isdigit() else None
