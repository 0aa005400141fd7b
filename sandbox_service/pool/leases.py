"""Leases: an instance keeps its slot until a time, which each use renews.

Leases are kept in order of last use, so that looking for expired ones touches only those.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum


class LeaseState(StrEnum):
    """The state of a lease."""

    HELD = "held"
    """The instance is not in use; its idle time counts."""
    IN_USE = "in_use"
    """An operation runs; the lease cannot expire."""
    EXPIRED = "expired"
    """The instance was idle for too long."""
    ENDED = "ended"
    """The instance ended before its lease expired."""


@dataclass(slots=True)
class Lease:
    """One instance's lease."""

    instance_id: str
    used_at: float
    state: LeaseState = LeaseState.HELD


class Leases:
    """All leases of one supervisor."""

    def __init__(self, idle_timeout_s: float) -> None:
        self.idle_timeout_s = idle_timeout_s
        self._by_last_use: OrderedDict[str, Lease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_last_use)

    def open(self, instance_id: str, now: float) -> Lease:
        """Open a lease for a new instance."""
        lease = Lease(instance_id, now)
        self._by_last_use[instance_id] = lease
        return lease

    def begin_use(self, lease: Lease, now: float) -> None:
        """Mark the instance as in use: an operation begins."""
        if lease.state is LeaseState.HELD:
            lease.state = LeaseState.IN_USE
            self._used(lease, now)

    def end_use(self, lease: Lease, now: float) -> None:
        """Mark the instance as idle: the operation is over."""
        if lease.state is LeaseState.IN_USE:
            lease.state = LeaseState.HELD
            self._used(lease, now)

    def end_lease(self, lease: Lease) -> None:
        """End the lease of an instance that has ended."""
        if self._by_last_use.pop(lease.instance_id, None) is not None:
            lease.state = LeaseState.ENDED

    def run_out(self, now: float) -> list[Lease]:
        """Expire and remove every lease that was idle for the idle time."""
        due: list[Lease] = []
        for lease in self._by_last_use.values():
            # In order of last use: those behind it are younger.
            if lease.used_at + self.idle_timeout_s > now:
                break
            if lease.state is LeaseState.HELD:
                due.append(lease)
        for lease in due:
            del self._by_last_use[lease.instance_id]
            lease.state = LeaseState.EXPIRED
        return due

    def expires_in_s(self, lease: Lease, now: float) -> float | None:
        """Return the seconds until the lease expires; None while it cannot."""
        if lease.state is not LeaseState.HELD:
            return None
        return max(0.0, lease.used_at + self.idle_timeout_s - now)

    def _used(self, lease: Lease, now: float) -> None:
        lease.used_at = now
        self._by_last_use.move_to_end(lease.instance_id)
