"""The table of instances: the live ones, and tombstones of those that ended recently.

Lookups name the tenant: another tenant's instance is unknown, whatever its state.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.pool.leases import Lease, Leases
from sandbox_service.trajectories.records import public_id, record_id

from .idempotency import KeyCache
from .listing import Listing

if TYPE_CHECKING:
    import asyncio

    from pydantic import JsonValue

    from sandbox_service.config import LeaseConfig
    from sandbox_service.environments.base import Catalog, EnvironmentSpec
    from sandbox_service.wire.frames import Frame

    from .background import BackgroundTasks
    from .clock import Clock
    from .idempotency import AnswerCache
    from .pooled_box import PooledBox


class InstanceState(StrEnum):
    """The state of an instance, in the contract's words."""

    CREATING = "creating"
    """Waits for a box, or is being set up in it."""
    ACTIVE = "active"
    """Takes actions."""
    FINISHED = "finished"
    """The episode is over; it can be evaluated."""
    RELEASED = "released"
    """Its owner ended it."""
    EXPIRED = "expired"
    """Its lease ran out."""
    LOST = "lost"
    """Its state was lost with its sandbox."""


_END_CODE_OF_STATE = {
    InstanceState.RELEASED: ErrorCode.INSTANCE_RELEASED,
    InstanceState.EXPIRED: ErrorCode.INSTANCE_EXPIRED,
    InstanceState.LOST: ErrorCode.INSTANCE_LOST,
}
END_CODES = frozenset(_END_CODE_OF_STATE.values())
"""Errors of calls to an instance that has ended."""


@dataclass(frozen=True, slots=True)
class VerifierSlot:
    """A slot in a box of a verifier."""

    box: PooledBox
    name: str
    """Its id in the pool of the box."""


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
    created_at: float
    """Unix time at which it was created, by whichever supervisor."""
    state: InstanceState = InstanceState.CREATING
    box: PooledBox | None = None
    """The box that it is in; None while it waits to be set up, or to be rebuilt by replay."""
    step_index: int = 0
    """Index of the next step."""
    sequence: int = 0
    """Sequence of the next event."""
    busy: bool = False
    """An operation runs."""
    replayable: bool = False
    """Its state can be rebuilt: the environment is deterministic and all operations are on record."""
    in_doubt: bool = False
    """It was recovered, and steps that were answered may be missing from its record."""
    slot_cleanup: asyncio.Task[None] | None = None
    """The task that clears the slot that it has left."""
    handover: asyncio.Task[None] | None = None
    """The task that hands it over to other supervisors; operations wait for its end."""
    reason: str = ""
    """The reason of its end."""
    verifier_slot: VerifierSlot | None = None
    """The slot in which it is graded, if that is not in its own box."""
    verifier_cleanup: asyncio.Task[None] | None = None
    """The task that clears the last such slot."""
    verdicts: dict[str, Frame] = field(default_factory=dict)
    """Answers of its first gradings by a verifier after the episode's end, by their parameters as JSON."""

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
        """Whether it has ended."""
        return self.state in _END_CODE_OF_STATE

    def detach_box(self) -> PooledBox | None:
        """Detach the instance from its box and return the box; the caller has to clear the slot."""
        box, self.box = self.box, None
        return box

    def clear_verifier(self, tasks: BackgroundTasks, limit_s: float) -> None:
        """Clear the slot in which it is graded, in the background, and so end a grading that runs there."""
        slot, self.verifier_slot = self.verifier_slot, None
        if slot is not None:
            self.verifier_cleanup = tasks.spawn(slot.box.clear(slot.name, limit_s))


@dataclass(frozen=True, slots=True)
class Tombstone:
    """An instance that ended."""

    instance_id: str
    """As in ``Instance``."""
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
    """Return the error of a call to an instance that has ended."""
    return ServiceError(_END_CODE_OF_STATE[state], reason)


def unknown_error(instance_id: str) -> ServiceError:
    """Return the error of an id that is unknown, or another tenant's."""
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
        self._of_tenant: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Numbers of live instances by tenant and environment."""
        # In microseconds, of which a supervisor's life has more than instances.
        self._listing = Listing(int(clock.time() * 1e6))
        self.leases = Leases(config.idle_timeout_s)

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._live or instance_id in self._tombstones

    def live(self) -> list[Instance]:
        """Return every live instance, in order of creation."""
        return list(self._live.values())

    def count(self, tenant: str, environment: str | None = None) -> int:
        """Return the number of a tenant's live instances, those being created included."""
        own = self._of_tenant.get(tenant, Counter())
        return own.total() if environment is None else own[environment]

    def counts(self) -> dict[str, int]:
        """Return the numbers of live instances by environment, in a box or not."""
        return dict(Counter(instance.spec.name for instance in self._live.values()))

    def by_id(self, instance_id: str) -> Instance | None:
        """Return a live instance of any tenant by its unique id; for events from boxes."""
        return self._live.get(instance_id)

    def keeps(self, instance: Instance) -> bool:
        """Return whether an instance is live here and is not being handed over."""
        return instance.handover is None and self._live.get(instance.instance_id) is instance

    def find(self, tenant: str, public_id: str) -> Instance | None:
        """Return a live instance of the tenant, None if unknown. Raises ServiceError if it has ended."""
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
        """Return the tombstone of an ended instance of the tenant."""
        tombstone = self._tombstones.get(public_id)
        if tombstone is None or tombstone.tenant != tenant:
            tombstone = self._tombstones.get(record_id(tenant, public_id))
        return tombstone

    def is_taken(self, tenant: str, public_id: str) -> bool:
        """Return whether the tenant has an instance of this id, live or recently ended."""
        try:
            return self.find(tenant, public_id) is not None
        except ServiceError:
            return True

    def status(self, tenant: str, public_id: str) -> Instance | Tombstone | None:
        """Return an instance of the tenant, live or recently ended."""
        with contextlib.suppress(ServiceError):
            return self.find(tenant, public_id)
        return self.tombstone(tenant, public_id)

    def page(
        self, tenant: str, after: int, limit: int, prefix: str = ""
    ) -> tuple[list[Instance | Tombstone], int | None]:
        """Return a page of a tenant's instances, live and recently ended; see ``Listing``."""
        ids, more = self._listing.page(tenant, after, limit, prefix)
        return [self._live.get(each) or self._tombstones[each] for each in ids], more

    def newest_live(self, tenant: str, limit: int) -> tuple[list[Instance], int]:
        """Return a tenant's live instances, the newest first and at most ``limit``, and the number of all."""
        own = (each for each in reversed(self._live.values()) if each.tenant == tenant)
        return list(islice(own, limit)), self.count(tenant)

    def new_id(self) -> str:
        """Return an unguessable id that names its supervisor."""
        return f"{self._supervisor}.{secrets.token_hex(16)}"

    def reserve(
        self,
        instance_id: str,
        tenant: str,
        task_id: str,
        catalog: Catalog,
        created_at: float | None = None,
    ) -> Instance:
        """Enter a new instance under an id, or one of another supervisor that was created at ``created_at``.

        Raises ServiceError(DUPLICATE_INSTANCE).
        """
        if instance_id in self:
            raise ServiceError(ErrorCode.DUPLICATE_INSTANCE, f"the id {public_id(instance_id)!r} is taken")
        now = self._clock.monotonic()
        lease = self.leases.open(instance_id, now)
        # In use while it is created, so that the lease cannot run out before the first answer.
        self.leases.begin_use(lease, now)
        keys: KeyCache[str] = KeyCache(self._answers)
        began = self._clock.time() if created_at is None else created_at
        instance = Instance(instance_id, tenant, task_id, catalog, 0, {}, lease, keys, began)
        instance.replayable = catalog.spec.deterministic
        self._live[instance_id] = instance
        self._of_tenant[tenant][catalog.spec.name] += 1
        self._listing.add(tenant, instance_id)
        return instance

    def activate(self, instance: Instance, *, finished: bool = False) -> None:
        """Mark an instance as set up; its idle time begins."""
        instance.state = InstanceState.FINISHED if finished else InstanceState.ACTIVE
        self.leases.end_use(instance.lease, self._clock.monotonic())

    def discard(self, instance: Instance) -> None:
        """Undo a reservation; the id is free again."""
        self._remove(instance)
        if instance.instance_id not in self._tombstones:
            self._listing.remove(instance.tenant, instance.instance_id)

    def begin_use(self, instance: Instance) -> None:
        """Mark an instance as busy with an operation."""
        instance.busy = True
        self.leases.begin_use(instance.lease, self._clock.monotonic())

    def end_use(self, instance: Instance) -> None:
        """Mark the operation as over; the idle time begins again."""
        instance.busy = False
        self.leases.end_use(instance.lease, self._clock.monotonic())

    def end_instance(
        self, instance: Instance, state: InstanceState, reason: str = "", key: str | None = None
    ) -> bool:
        """End an instance and leave a tombstone; return False if it had ended before."""
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
        """Remember an instance that has ended."""
        self._tombstones[tombstone.instance_id] = tombstone
        self._listing.add(tombstone.tenant, tombstone.instance_id)

    def drop_old_tombstones(self) -> None:
        """Drop the tombstones older than ``lease.tombstone_s``; the store still has the instances."""
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
        self.leases.end_lease(instance.lease)
        instance.keys.close()
        own = self._of_tenant[instance.tenant]
        own[instance.spec.name] -= 1
        if not own.total():
            del self._of_tenant[instance.tenant]
