"""The order in which instances are listed: by tenant, in order of creation, a page at a time.

Every instance has a number that it keeps when it ends, so that a listing that takes several pages names each
instance once, whatever ends in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_service.trajectories.records import public_id


class Listing:
    """Ids of instances, live or ended a while ago."""

    def __init__(self) -> None:
        self._of_tenant: dict[str, dict[str, int]] = {}
        self._last = 0

    def add(self, tenant: str, instance_id: str) -> None:
        """List an instance, unless it is listed."""
        listed = self._of_tenant.setdefault(tenant, {})
        if instance_id not in listed:
            self._last += 1
            listed[instance_id] = self._last

    def remove(self, tenant: str, instance_id: str) -> None:
        """List an instance no more."""
        listed = self._of_tenant.get(tenant, {})
        listed.pop(instance_id, None)
        if not listed:
            self._of_tenant.pop(tenant, None)

    def page(self, tenant: str, after: int, limit: int, prefix: str = "") -> tuple[Sequence[str], int | None]:
        """Return a tenant's ids after a number, and the number to go on from, None at the end."""
        page: list[str] = []
        last = after
        for instance_id, number in self._of_tenant.get(tenant, {}).items():
            if number <= after or not public_id(instance_id).startswith(prefix):
                continue
            if len(page) == limit:
                return page, last
            page.append(instance_id)
            last = number
        return page, None
