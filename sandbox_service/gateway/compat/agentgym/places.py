"""AgentGym's integer ids, and the instances behind them.

The gateway holds no state and has replicas: an id is made up, carries a check digit of tenant and
environment, and every reset makes an instance named ``agentgym-<server>-<id>-<number>``. Which of them lives
is remembered here and, where it is not, found by asking the fleet; what is remembered is never trusted
further than the supervisor's next word.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.inspection import LIVE, known_instances

if TYPE_CHECKING:
    from sandbox_contract.inspection import InstanceStatus
    from sandbox_service.gateway.exchange import Exchange
    from sandbox_service.gateway.verbs import Verbs


FIRST = 0
"""Number of an id's first instance; later ones are microseconds, which nobody has to remember."""
_CHECK_BITS = 12
_NUMBER_BITS = 40
_MOST_KNOWN = 65_536
_ENDINGS = {
    "expired": (
        ErrorCode.INSTANCE_EXPIRED,
        "The task with environment {id} was idle for too long and has been released.",
    ),
    "lost": (ErrorCode.INSTANCE_LOST, "The task with environment {id} was lost with its sandbox."),
}


def instance_name(server: str, place: int, number: int) -> str:
    """The instance of one reset."""
    return f"agentgym-{server}-{place}-{number}"


def later_number() -> int:
    """A number greater than all that this id has had."""
    return time.time_ns() // 1_000


class Places:
    """Ids and their instances, as far as this replica knows."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._known: OrderedDict[tuple[str, str, int], str | None] = OrderedDict()

    def issue(self, exchange: Exchange, server: str) -> int:
        """A new id, which has no instance yet."""
        number = secrets.randbits(_NUMBER_BITS)
        place = number << _CHECK_BITS | _check(exchange.tenant, server, number)
        self._keep(exchange, server, place, None)
        return place

    def check(self, exchange: Exchange, server: str, place: int) -> None:
        """Refuse ids that create never gave to this tenant. Raises ServiceError(UNKNOWN_INSTANCE)."""
        number = place >> _CHECK_BITS
        if place != (number << _CHECK_BITS | _check(exchange.tenant, server, number)):
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"The id {place} is not valid.")

    def unused(self, exchange: Exchange, server: str, place: int) -> bool:
        """Whether this replica made the id and knows of no instance: another may have made one."""
        return self._known.get((exchange.tenant, server, place), "") is None

    def recall(self, exchange: Exchange, server: str, place: int) -> str | None:
        """The instance, as far as it is remembered."""
        return self._known.get((exchange.tenant, server, place))

    def remember(self, exchange: Exchange, server: str, place: int, instance_id: str | None) -> None:
        """The id's instance is this one, or it has none yet."""
        self._keep(exchange, server, place, instance_id)

    def forget(self, exchange: Exchange, server: str, place: int) -> None:
        """What was remembered of the id is not so any more."""
        self._known.pop((exchange.tenant, server, place), None)

    async def all(self, exchange: Exchange, server: str, place: int) -> Sequence[InstanceStatus]:
        """Every instance of the id that the fleet knows, the newest last."""
        prefix = instance_name(server, place, 0)[:-1]
        found = [
            status
            for status in await known_instances(self._verbs, exchange, prefix)
            if status.instance_id.startswith(prefix) and _number(status.instance_id) is not None
        ]
        return sorted(found, key=lambda status: _number(status.instance_id) or 0)

    async def find(self, exchange: Exchange, server: str, place: int) -> str:
        """The living instance, asked of the fleet. Raises ServiceError when there is none, saying why."""
        found = await self.all(exchange, server, place)
        for status in reversed(found):
            if status.state in LIVE:
                self._keep(exchange, server, place, status.instance_id)
                return status.instance_id
        self.forget(exchange, server, place)
        if not found:
            detail = f"The task with environment {place} has not been reset."
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, detail)
        deleted = (ErrorCode.INSTANCE_RELEASED, "The task with environment {id} has been deleted.")
        code, detail = _ENDINGS.get(found[-1].state, deleted)
        raise ServiceError(code, detail.format(id=place))

    async def living(self, exchange: Exchange, server: str) -> list[int]:
        """Ids that have a living instance."""
        places = {
            place
            for status in await known_instances(self._verbs, exchange, f"agentgym-{server}-")
            if status.state in LIVE and (place := _place(server, status.instance_id)) is not None
        }
        return sorted(places)

    def _keep(self, exchange: Exchange, server: str, place: int, instance_id: str | None) -> None:
        key = (exchange.tenant, server, place)
        self._known[key] = instance_id
        self._known.move_to_end(key)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)


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
