"""The table of instances: those that live, and the tombstones of those that ended a while ago.

Every question names the tenant: another tenant's instance is unknown, whatever its state.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.pool.leases import Lease, Leases
from sandbox_service.trajectories.records import public_id, record_id

from .idempotency import KeyCache

if TYPE_CHECKING:
    import asyncio

    from pydantic import JsonValue

    from sandbox_service.config import LeaseConfig
    from sandbox_service.environments.base import Catalog, EnvironmentSpec

    from .clock import Clock
    from .idempotency import AnswerCache
    from .pooled_box import PooledBox


class InstanceState(StrEnum):
    """Where an instance is in its life; the contract's words."""

    CREATING = "creating"
    """Waits for a box, or is being set up in it."""
    ACTIVE = "active"
    """Takes actions."""
    FINISHED = "finished"
    """The episode is over; it can be evaluated."""
    RELEASED = "released"
    """Its owner ended it."""
    EXPIRED = "expired"
    """Nobody used it for too long."""
    LOST = "lost"
    """Its sandbox took it along."""


_END_CODE_OF_STATE = {
    InstanceState.RELEASED: ErrorCode.INSTANCE_RELEASED,
    InstanceState.EXPIRED: ErrorCode.INSTANCE_EXPIRED,
    InstanceState.LOST: ErrorCode.INSTANCE_LOST,
}
END_CODES = frozenset(_END_CODE_OF_STATE.values())
"""Errors of calls to an instance that has ended."""


@dataclass(slots=True, eq=False)
class Instance:
    """One live episode."""

    instance_id: str
    """Unique in the service: the id of its records, which names the tenant where the tenant chose the id."""
    tenant: str
    task_id: str
    catalog: Catalog
    seed: int
    params: dict[str, JsonValue]
    lease: Lease
    keys: KeyCache[str]
    """Its idempotency keys."""
    state: InstanceState = InstanceState.CREATING
    box: PooledBox | None = None
    """Where it lives; None while it waits to be set up, or to be rebuilt by replay."""
    step_index: int = 0
    """Index of the next step."""
    sequence: int = 0
    """Sequence of the next event."""
    busy: bool = False
    """An operation runs."""
    replayable: bool = False
    """All that made its state is on record, and the environment is deterministic."""
    in_doubt: bool = False
    """It was recovered, and steps that were answered may be on no record."""
    slot_cleanup: asyncio.Task[None] | None = None
    """The clearing of the place that it has left."""
    reason: str = ""
    """Why it ended."""

    @property
    def public_id(self) -> str:
        """The id by which its tenant and its box know it."""
        return public_id(self.instance_id)

    @property
    def spec(self) -> EnvironmentSpec:
        """Its environment's specification."""
        return self.catalog.spec

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.state in _END_CODE_OF_STATE

    def detach_box(self) -> PooledBox | None:
        """Part the instance from its box. Whoever gets it has to see to the place that is left."""
        box, self.box = self.box, None
        return box


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An instance that ended."""

    instance_id: str
    """As of ``Instance``."""
    tenant: str
    environment: str
    task_id: str
    state: InstanceState
    step_index: int
    ended_at: float
    reason: str = ""
    ended_by_key: str | None = None
    """The idempotency key of the release that ended it."""


def end_error(state: InstanceState, reason: str = "") -> ServiceError:
    """The error of a late call."""
    return ServiceError(_END_CODE_OF_STATE[state], reason)


def unknown_error(instance_id: str) -> ServiceError:
    """The error of an id that means nothing to the caller."""
    return ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"no instance {instance_id!r}")


class InstanceTable:
    """All instances of one supervisor."""

    def __init__(self, supervisor: str, config: LeaseConfig, clock: Clock, answers: AnswerCache) -> None:
        self._supervisor = supervisor
        self._config = config
        self._answers = answers
        self._clock = clock
        self._live: dict[str, Instance] = {}
        self._tombstones: OrderedDict[str, Tombstone] = OrderedDict()
        self._of_tenant: Counter[str] = Counter()
        self._listing = Listing()
        self.leases = Leases(config.idle_timeout_s)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._live or instance_id in self._tombstones

    def live(self) -> list[Instance]:
        """Every live instance, in order of creation."""
        return list(self._live.values())

    def count(self, tenant: str) -> int:
        """Live instances of a tenant, those being created included."""
        return self._of_tenant[tenant]

    def by_id(self, instance_id: str) -> Instance | None:
        """A live instance of any tenant by its unique id; for events that come from boxes."""
        return self._live.get(instance_id)

    def find(self, tenant: str, public_id: str) -> Instance | None:
        """A live instance of the tenant; None when the table knows nothing. Raises when it is gone."""
        instance = self._live.get(public_id)
        if instance is None or instance.tenant != tenant:
            instance = self._live.get(record_id(tenant, public_id))
        if instance is not None:
            return instance
        tombstone = self.tombstone(tenant, public_id)
        if tombstone is not None:
            raise end_error(tombstone.state, tombstone.reason)
        return None

    def tombstone(self, tenant: str, public_id: str) -> Tombstone | None:
        """What is remembered of an ended instance of the tenant."""
        tombstone = self._tombstones.get(public_id)
        if tombstone is None or tombstone.tenant != tenant:
            tombstone = self._tombstones.get(record_id(tenant, public_id))
        return tombstone

    def is_taken(self, tenant: str, public_id: str) -> bool:
        """Whether the tenant has, or had a while ago, an instance of this id."""
        try:
            return self.find(tenant, public_id) is not None
        except ServiceError:
            return True

    def status(self, tenant: str, public_id: str) -> Instance | Tombstone | None:
        """A tenant's instance, live or ended."""
        with contextlib.suppress(ServiceError):
            return self.find(tenant, public_id)
        return self.tombstone(tenant, public_id)

    def page(
        self, tenant: str, after: int, limit: int, prefix: str = ""
    ) -> tuple[list[Instance | Tombstone], int | None]:
        """A page of a tenant's instances, live and ended; see ``Listing``."""
        ids, more = self._listing.page(tenant, after, limit, prefix)
        return [self._live.get(each) or self._tombstones[each] for each in ids], more

    def new_id(self) -> str:
        """Return an unguessable id that names its supervisor."""
        return f"{self._supervisor}.{secrets.token_hex(16)}"

    def reserve(self, instance_id: str, tenant: str, task_id: str, catalog: Catalog) -> Instance:
        """Take an id for a new instance. Raises ServiceError(DUPLICATE_INSTANCE)."""
        if instance_id in self:
            raise ServiceError(ErrorCode.DUPLICATE_INSTANCE, f"the id {public_id(instance_id)!r} is taken")
        now = self._clock.monotonic()
        lease = self.leases.open(instance_id, now)
        self.leases.begin_use(lease, now)
        keys: KeyCache[str] = KeyCache(self._answers)
        instance = Instance(instance_id, tenant, task_id, catalog, 0, {}, lease, keys)
        instance.replayable = catalog.spec.deterministic
        self._live[instance_id] = instance
        self._of_tenant[tenant] += 1
        self._listing.add(tenant, instance_id)
        return instance

    def activate(self, instance: Instance, *, finished: bool = False) -> None:
        """The instance is set up, and its idle time begins to count."""
        instance.state = InstanceState.FINISHED if finished else InstanceState.ACTIVE
        self.leases.end_use(instance.lease, self._clock.monotonic())

    def discard(self, instance: Instance) -> None:
        """Undo a reservation: the id is free again."""
        self._remove(instance)
        if instance.instance_id not in self._tombstones:
            self._listing.remove(instance.tenant, instance.instance_id)

    def begin_use(self, instance: Instance) -> None:
        """An operation has the instance to itself."""
        instance.busy = True
        self.leases.begin_use(instance.lease, self._clock.monotonic())

    def end_use(self, instance: Instance) -> None:
        """The operation is over."""
        instance.busy = False
        self.leases.end_use(instance.lease, self._clock.monotonic())

    def end(self, instance: Instance, state: InstanceState, reason: str = "", key: str | None = None) -> bool:
        """End an instance and leave a tombstone; False when it had ended before."""
        if instance.ended:
            return False
        self._remove(instance)
        instance.state = state
        instance.reason = reason
        self.add_tombstone(
            Tombstone(
                instance.instance_id,
                instance.tenant,
                instance.spec.name,
                instance.task_id,
                state,
                instance.step_index,
                self._clock.monotonic(),
                reason,
                key,
            )
        )
        return True

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Remember an instance that ended."""
        self._tombstones[tombstone.instance_id] = tombstone
        self._listing.add(tombstone.tenant, tombstone.instance_id)

    def drop_old_tombstones(self) -> None:
        """Drop tombstones that are old enough for the store alone to remember."""
        horizon = self._clock.monotonic() - self._config.tombstone_s
        while self._tombstones:
            oldest = next(iter(self._tombstones.values()))
            if oldest.ended_at > horizon:
                return
            del self._tombstones[oldest.instance_id]
            self._listing.remove(oldest.tenant, oldest.instance_id)

    def _remove(self, instance: Instance) -> None:
        if self._live.pop(instance.instance_id, None) is None:
            return
        self.leases.end(instance.lease)
        instance.keys.close()
        self._of_tenant[instance.tenant] -= 1
        if not self._of_tenant[instance.tenant]:
            del self._of_tenant[instance.tenant]


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
