"""The order of a supervisor's instances, by which they are listed a page at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox_service.trajectories.records import public_id

_AFTER_ALL = "\U0010ffff"
"""Follows each character of an id."""


@dataclass(slots=True)
class _Listed:
    """The instances of one tenant."""

    numbers: dict[str, int] = field(default_factory=dict)
    """Their numbers by id, in order of creation."""
    by_name: list[str] = field(default_factory=list)
    """Ids in the order of the public ids, also some that were removed: each removal would move the rest."""

    def add(self, instance_id: str, number: int) -> None:
        self.numbers[instance_id] = number
        place = bisect_left(self.by_name, public_id(instance_id), key=public_id)
        if self.by_name[place : place + 1] != [instance_id]:
            self.by_name.insert(place, instance_id)

    def remove(self, instance_id: str) -> None:
        self.numbers.pop(instance_id, None)
        if len(self.by_name) > 2 * len(self.numbers):
            self.by_name = [each for each in self.by_name if each in self.numbers]

    def named(self, prefix: str) -> Sequence[str]:
        """Return the ids whose public id has the prefix, in order of creation."""
        start = bisect_left(self.by_name, prefix, key=public_id)
        end = bisect_left(self.by_name, prefix + _AFTER_ALL, key=public_id)
        listed = {each for each in self.by_name[start:end] if each in self.numbers}
        return sorted(listed, key=self.numbers.__getitem__)


class Listing:
    """Lists instance ids by tenant, in order of creation, a page at a time.

    An instance keeps its number when it ends, so that a listing of several pages names each instance once.
    Those of a prefix are found without a look at the others, of which there may be many.
    """

    def __init__(self, before: int = 0) -> None:
        """Give instances numbers above ``before``.

        If the numbers of a supervisor's former process are all lower, a client that continues a listing of
        that process gets all live instances again: it may see one twice, and misses none.
        """
        self._of_tenant: dict[str, _Listed] = {}
        self._last = before

    def add(self, tenant: str, instance_id: str) -> None:
        """Add an instance, unless it is listed."""
        listed = self._of_tenant.setdefault(tenant, _Listed())
        if instance_id not in listed.numbers:
            self._last += 1
            listed.add(instance_id, self._last)

    def remove(self, tenant: str, instance_id: str) -> None:
        """Remove an instance."""
        listed = self._of_tenant.get(tenant)
        if listed is None:
            return
        listed.remove(instance_id)
        if not listed.numbers:
            del self._of_tenant[tenant]

    def page(self, tenant: str, after: int, limit: int, prefix: str = "") -> tuple[Sequence[str], int | None]:
        """Return a tenant's ids after a number, and the number of the next page, None at the end."""
        page: list[str] = []
        last = after
        listed = self._of_tenant.get(tenant, _Listed())
        for instance_id in listed.named(prefix) if prefix else listed.numbers:
            number = listed.numbers[instance_id]
            if number <= after:
                continue
            if len(page) == limit:
                return page, last
            page.append(instance_id)
            last = number
        return page, None
