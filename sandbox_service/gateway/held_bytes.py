"""Count bytes in memory, within a bound of each tenant and one of all tenants."""

from __future__ import annotations

from collections import Counter

from sandbox_service.errors import OverCapacityError

_RETRY_S = 1.0
_MIB = 1024 * 1024


class HeldBytes:
    """The bytes of one kind that a gateway replica holds for its tenants."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        """Bound all bytes to ``most``, those of a tenant to ``most_of_one``; ``what`` is for messages."""
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._held: Counter[str] = Counter()
        self._all = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all tenants."""
        return self._all

    def take_bytes(self, tenant: str, size: int) -> None:
        """Count further bytes of a tenant; the first ones always have room, however many they are.

        Raises OverCapacityError(QUEUE_FULL) over a bound.
        """
        if self._held[tenant] and self._held[tenant] + size > self._most_of_one:
            raise self._no_room("this tenant", self._most_of_one, "quota.bodies_mib")
        if self._all and self._all + size > self._most:
            raise self._no_room("all tenants", self._most, "server.bodies_mib")
        self._held[tenant] += size
        self._all += size

    def give_back(self, tenant: str, size: int) -> None:
        """Stop counting bytes of a tenant."""
        self._all -= size
        self._held[tenant] -= size
        if not self._held[tenant]:
            del self._held[tenant]

    def _no_room(self, whose: str, most: int, setting: str) -> OverCapacityError:
        detail = f"the {self._what} of {whose} fill {most // _MIB} MiB ({setting})"
        return OverCapacityError(detail, _RETRY_S)
