"""What the supervisor needs of a trajectory store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .pages import EventPage, PageBounds
    from .records import EventRecord, InstanceRecord, Recorded

__all__ = ["TrajectoryStore"]


class TrajectoryStore(Protocol):
    """Append-only history. ``open_instance`` and ``append`` only queue, and never block on the database.

    They raise ServiceError(STORAGE_FULL) when the writer cannot keep up or cannot write: then the operation
    fails, and nothing is lost in silence. A tenant's instance id stands for one episode for ever: before it
    takes an id that a client chose, a supervisor asks ``instance`` whether it is free.
    """

    def open_instance(self, record: InstanceRecord) -> None:
        """Record that an instance exists."""
        ...

    def append(self, event: EventRecord) -> None:
        """Record that something happened to it."""
        ...

    def check(self) -> None:
        """Raise ServiceError(STORAGE_FULL) while records would be refused."""
        ...

    async def committed(self) -> None:
        """Wait until what was queued so far is as durable as an answer promises (``store.durability``).

        Raises ServiceError(STORAGE_FULL) when that takes too long; what was queued is written when it can be.
        """
        ...

    async def flush(self) -> None:
        """Wait until everything queued so far is written."""
        ...

    async def instance(self, tenant: str, public_id: str) -> InstanceRecord | None:
        """Return the record of a tenant's instance (flushes first)."""
        ...

    async def events(self, instance_id: str) -> Sequence[EventRecord]:
        """Its events in order, those of its parents before the fork included (flushes first)."""
        ...

    async def page(self, instance_id: str, bounds: PageBounds) -> EventPage:
        """Return its events after a sequence, as many as the bounds allow (flushes first)."""
        ...

    async def unended(self, supervisor: str) -> Sequence[InstanceRecord]:
        """Instances of a supervisor that have no ending event: what a restart has to settle."""
        ...

    async def is_complete(self, supervisor: str) -> bool:
        """Return whether all that a supervisor answered in its latest life is on record."""
        ...

    async def begin_life(self, supervisor: str) -> None:
        """Note that a supervisor begins to write."""
        ...

    async def end_life(self, supervisor: str) -> None:
        """Note that a supervisor ends in order (flushes first)."""
        ...

    async def event_of_key(self, tenant: str, public_id: str, key: str) -> EventRecord | None:
        """Return what a tenant's instance did under an idempotency key (flushes first)."""
        ...

    async def created_by_key(self, tenant: str, key: str) -> EventRecord | None:
        """The create that a tenant made with an idempotency key.

        Does not flush: what is still queued is in the supervisor's memory.
        """
        ...

    async def create_keys(self, most: int) -> Collection[str] | None:
        """The idempotency keys of all creates on record, of all tenants.

        None where they are more than ``most``, and where other supervisors write to the same database, so
        that what is there now says little.
        """
        ...

    async def recorded_bytes(self, supervisor: str, since: float, until: float) -> Sequence[Recorded]:
        """What each tenant had recorded by a supervisor between two times, by the hour."""
        ...

    async def close(self) -> None:
        """Flush and give back what the store holds; raises ServiceError when records could not be written."""
        ...
