"""Remove old families of instances from a store beside the services that write to it.

First ``plan_pruning`` reads what would be removed, then ``prune`` removes it in short transactions with
pauses, since an SQLite file has one writer at a time and answers of the service wait for their commits. A run
that is stopped has removed some families and left the others; the next one continues.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from .families import IDS_AT_ONCE, count_families, find_changed, list_families
from .ownership import LockedError, living_supervisors, lock_supervisors
from .reader import InstanceFilter
from .schema import events, instances

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

    from .families import Family, FamilyMember


MIN_AGE_S = 3600.0
"""Least age of what is removed: retries with an idempotency key find the earlier answer in the store."""
BATCH_EVENTS = 1000
"""Events that are removed in one transaction, unless one instance has more."""
_BATCH_BYTES = 16 * 1024 * 1024
_LEAST_PAUSE_S = 0.01
_CHECKPOINT_PAGES = 1000
_LOCK = 7_305_211_949
"""PostgreSQL advisory lock under which rows are removed: two runs would wait for each other's rows."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of families that are done and of all."""


@dataclass(frozen=True, slots=True)
class PruneRules:
    """Conditions on the families to remove."""

    before: float
    """The last event of a family was before this unix time."""
    environment: str | None = None
    tenant: str | None = None
    keep_bytes: int | None = None
    """Of the environment and tenant so much may stay; the oldest families go until no more is left."""
    unended: bool = False
    """Also remove families of which an instance never ended, unless a living supervisor has it."""

    def apply_to(self, family: Family, living: Collection[str]) -> bool:
        """Return whether a family may be removed; ``living`` are the supervisors that hold leases."""
        may_go = family.is_ended or (self.unended and family.owners.isdisjoint(living))
        return may_go and family.latest_at < self.before


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of recorded families."""

    families: int = 0
    instances: int = 0
    events: int = 0
    size: int = 0
    """Bytes of requests and results."""

    def plus(self, family: Family) -> Amount:
        """Return the amount with one more family."""
        return Amount(
            self.families + 1,
            self.instances + len(family.members),
            self.events + family.events,
            self.size + family.size,
        )

    def plus_member(self, removal: Removal) -> Amount:
        """Return the amount with one more member; the last of a family completes the family."""
        member, family = removal.member, removal.family
        return Amount(
            self.families + (member.instance_id == family.first_id),
            self.instances + 1,
            self.events + member.events,
            self.size + member.size,
        )


@dataclass(frozen=True, slots=True)
class Removal:
    """A member to remove, with its family."""

    member: FamilyMember
    family: Family


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The families to remove."""

    rules: PruneRules
    removed: Amount
    """The amount that ``prune`` removes."""
    unended: int
    """Families that are old enough, but stay, since they have an instance that never ended."""
    through: float | None
    """Unix time at which the last family to remove was created; None if there is no such bound."""


def plan_pruning(engine: Engine, rules: PruneRules, progress: Progress) -> PrunePlan:
    """Read what is to be removed; nothing is changed."""
    # What stays counts towards ``keep_bytes``, so families of any age are read for it.
    until = rules.before if rules.keep_bytes is None else None
    living = _living(engine)
    total = Amount()
    removable = Amount()
    unended = 0
    candidates = _Candidates()
    for family in _families(engine, rules, until, progress):
        total = total.plus(family)
        if rules.apply_to(family, living):
            removable = removable.plus(family)
            candidates.add(family)
        elif family.latest_at < rules.before:
            unended += 1
    if rules.keep_bytes is None:
        return PrunePlan(rules, removable, unended, None)
    removed, through = candidates.oldest(total.size - rules.keep_bytes)
    return PrunePlan(rules, removed, unended, through)


def prune(
    engine: Engine, plan: PrunePlan, progress: Progress, pause: Callable[[float], None] = time.sleep
) -> Amount:
    """Remove the planned families that are as they were, and return what was removed.

    Between two transactions it pauses for as long as the last one took, so that a service can write.
    """
    done = Amount()
    kept: set[str] = set()
    # Again: a supervisor may have come back. One that does so later is seen in the transaction.
    living = _living(engine)

    def planned() -> Iterator[Family]:
        for family in _families(engine, plan.rules, plan.rules.before):
            if plan.through is not None and family.created_at > plan.through:
                return
            if plan.rules.apply_to(family, living):
                yield family

    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            # Its commits make the checkpoints that its own pages need; otherwise the service's would.
            connection.exec_driver_sql(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            connection.rollback()
        for batch in _transactions(planned()):
            begun = time.monotonic()
            for each in _remove(connection, batch, kept):
                done = done.plus_member(each)
            progress(done.families, plan.removed.families)
            pause(max(_LEAST_PAUSE_S, time.monotonic() - begun))
    return done


def reclaim(engine: Engine) -> None:
    """Give removed rows' space back: an SQLite file shrinks, PostgreSQL reuses it at once.

    SQLite writes the whole file anew, which blocks every writer meanwhile and needs as much disk again.
    """
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {instances.name}, {events.name}")


class _Candidates:
    """Families that may be removed, the oldest first, in few bytes each."""

    def __init__(self) -> None:
        self._created = array("d")
        self._amounts = tuple(array("q") for _ in range(3))

    def add(self, family: Family) -> None:
        self._created.append(family.created_at)
        for column, value in zip(
            self._amounts, (len(family.members), family.events, family.size), strict=True
        ):
            column.append(value)

    def oldest(self, size: int) -> tuple[Amount, float]:
        """Return the oldest families that have at least so many bytes, and when the last was created."""
        amount, through = Amount(), float("-inf")
        for created, members, number, taken in zip(self._created, *self._amounts, strict=True):
            # Families of one moment go together, since only the moment is remembered.
            if amount.size >= size and created > through:
                break
            amount = replace(
                amount,
                families=amount.families + 1,
                instances=amount.instances + members,
                events=amount.events + number,
                size=amount.size + taken,
            )
            through = created
        return amount, through


def _living(engine: Engine) -> frozenset[str]:
    with engine.connect() as connection:
        return living_supervisors(connection)


def _families(
    engine: Engine, rules: PruneRules, until: float | None, progress: Progress | None = None
) -> Iterator[Family]:
    wanted = InstanceFilter(rules.environment, rules.tenant, until=until)
    # Without a transaction: one that lasts for minutes keeps SQLite's log from being emptied, and PostgreSQL
    # from vacuuming.
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        total = count_families(connection, wanted) if progress is not None else 0
        for number, family in enumerate(list_families(connection, wanted), 1):
            yield family
            if progress is not None:
                progress(number, total)


def _transactions(families: Iterator[Family]) -> Iterator[list[Removal]]:
    """Yield the members to remove in one transaction: whole families, unless one alone is too large.

    The descendants of a large one go first, so that what is left of it meanwhile has all its history.
    """
    batch: list[Removal] = []
    for family in families:
        added = [Removal(member, family) for member in family.members]
        if batch and _is_too_large([*batch, *added]):
            yield batch
            batch = []
        batch += added
        while len(batch) > 1 and _is_too_large(batch):
            taken = _head(batch)
            yield taken
            batch = batch[len(taken) :]
    if batch:
        yield batch


def _is_too_large(batch: list[Removal]) -> bool:
    return (
        len(batch) > IDS_AT_ONCE
        or sum(each.member.events for each in batch) > BATCH_EVENTS
        or sum(each.member.size for each in batch) > _BATCH_BYTES
    )


def _head(batch: list[Removal]) -> list[Removal]:
    """Return the first members that fit into a transaction, at least one."""
    count = 1
    while not _is_too_large(batch[: count + 1]):
        count += 1
    return batch[:count]


def _remove(connection: Connection, batch: list[Removal], kept: set[str]) -> list[Removal]:
    """Remove members, and return those that were removed.

    ``kept`` has the first ids of families that stay, to which those are added that have come to life since
    they were read.
    """
    with connection.begin():
        if connection.dialect.name == "sqlite":
            # A deferred transaction would fail at once, not wait, when the service commits meanwhile.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        kept |= _revived(connection, {each.family.first_id: each.family for each in batch})
        removed = [each for each in batch if each.family.first_id not in kept]
        ids = [each.member.instance_id for each in removed]
        connection.execute(events.delete().where(events.c.instance_id.in_(ids)))
        connection.execute(instances.delete().where(instances.c.instance_id.in_(ids)))
    return removed


def _revived(connection: Connection, families: Mapping[str, Family]) -> set[str]:
    """Return which families a supervisor has taken over, or has come back to, since they were read.

    Until the transaction ends, none does so with the others.
    """
    unended = {first_id: family.unended for first_id, family in families.items() if not family.is_ended}
    if not unended:
        return set()
    try:
        # In the order in which a claim locks: supervisors, then instances.
        with connection.begin_nested():
            lock_supervisors(connection, {each.owner for members in unended.values() for each in members})
    except LockedError:
        # Something still writes for one of them; another run removes what is left then.
        return set(unended)
    living = living_supervisors(connection)
    changed = find_changed(
        connection,
        [member for members in unended.values() for member in members if member.owner not in living],
    )
    return {
        first_id
        for first_id, members in unended.items()
        if any(member.owner in living or member.instance_id in changed for member in members)
    }
