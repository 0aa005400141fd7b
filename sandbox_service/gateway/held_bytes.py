"""Count bytes in memory, within a bound of each tenant and one of all tenants.

Callers without a key belong to no tenant. They have a small bound of their own, so that they take no room
from tenants.
"""

from __future__ import annotations

from collections import Counter

from sandbox_service.errors import OverCapacityError

_RETRY_S = 1.0
_MIB = 1024 * 1024
_KEYLESS = ""
_MOST_KEYLESS = 8 * _MIB


class HeldBytes:
    """The bytes of one kind that a gateway replica holds for its tenants."""

    def __init__(self, what: str, most: int, most_of_one: int, reserve: int = 0) -> None:
        """Bound all bytes to ``most``, those of a tenant to ``most_of_one``; ``what`` is for messages.

        The last ``reserve`` bytes are for tenants that hold nothing.
        """
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._reserve = reserve
        self._held: Counter[str] = Counter()
        self._all = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all tenants."""
        return self._all

    def take_bytes(self, tenant: str, size: int) -> None:
        """Count further bytes of a tenant. Raises OverCapacityError(QUEUE_FULL) over a bound.

        The first ones may exceed the tenant's bound, and if no other tenant holds any, that of all: what is
        larger than a bound would otherwise never have room.
        """
        held = self._held[tenant]
        if tenant == _KEYLESS:
            if held + size > _MOST_KEYLESS:
                raise self._no_room("callers without a key", _MOST_KEYLESS)
        else:
            self._check(held, size)
            self._all += size
        self._held[tenant] += size

    def give_back(self, tenant: str, size: int) -> None:
        """Stop counting bytes of a tenant."""
        if tenant != _KEYLESS:
            self._all -= size
        self._held[tenant] -= size
        if not self._held[tenant]:
            del self._held[tenant]

    def _check(self, held: int, size: int) -> None:
        if self._all and self._all + size > self._most - (self._reserve if held else 0):
            raise self._no_room("all tenants", self._most, "server.bodies_mib")
        if held and held + size > self._most_of_one:
            raise self._no_room("this tenant", self._most_of_one, "quota.bodies_mib")

    def _no_room(self, whose: str, most: int, setting: str = "") -> OverCapacityError:
        bound = f"{most // _MIB} MiB ({setting})" if setting else f"{most // _MIB} MiB"
        return OverCapacityError(f"the {self._what} of {whose} leave no further room in {bound}", _RETRY_S)
