"""Who gets which box, which boxes start, and which must go: decided without doing any of it.

``assign`` moves the state to what is decided and returns what is to be done about it. Whoever calls it
acts afterwards, outside of any lock, and reports back by the transitions of ``PoolState``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .fairness import QUANTUM
from .state import Box, BoxState

if TYPE_CHECKING:
    from .fairness import TenantQueue, Waiter
    from .state import PoolState

__all__ = ["Decisions", "Grant", "assign", "has_place_for"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A waiter's place."""

    waiter: Waiter
    box: int


@dataclass(slots=True)
class Decisions:
    """What is to be done now."""

    grants: list[Grant] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    destroys: list[int] = field(default_factory=list)
    expired: list[Waiter] = field(default_factory=list)
    """Waited for too long."""
    hopeless: list[Waiter] = field(default_factory=list)
    """Need a new box while boxes do not start."""


def assign(state: PoolState, now: float) -> Decisions:
    """Decide everything that can be decided at ``now``."""
    decisions = Decisions(expired=state.queues.expire(now))
    _drop_stale_claims(state)
    blocked: set[str] = set()
    while (tenant := state.queues.next_tenant(state.holdings, blocked)) is not None:
        if not (_grant(state, tenant, now, decisions) or _provide(state, tenant, now, decisions)):
            blocked.add(tenant)
    if state.backoff.hopeless:
        decisions.hopeless = _without_hope(state)
    _keep_warm(state, now, decisions)
    return decisions


def has_place_for(state: PoolState, tenant: str, *, fresh: bool) -> bool:
    """Whether a create of a tenant would be granted without waiting."""
    return state.may_set_up() and _box_for(state, tenant, fresh=fresh) is not None


def _grant(state: PoolState, tenant: str, now: float, decisions: Decisions) -> bool:
    if not state.may_set_up():
        return False
    for waiter in state.queues.queue(tenant).heads():
        box = _box_for(state, tenant, fresh=waiter.fresh)
        if box is not None:
            state.place(box, waiter, now)
            decisions.grants.append(Grant(waiter, box.serial))
            return True
    return False


def _box_for(state: PoolState, tenant: str, *, fresh: bool) -> Box | None:
    """The tenant's fullest box with room, else the one idle for longest, used ones first."""
    usable = [
        box
        for box in state.boxes.values()
        if state.has_room(box) and box.tenant in (None, tenant) and not (fresh and box.uses)
    ]
    if usable and not state.may_use_another(tenant):
        usable = [box for box in usable if box.instances]
    return min(
        usable,
        key=lambda box: (-len(box.instances), box.tenant is None, box.idle_since, box.serial),
        default=None,
    )


def _provide(state: PoolState, tenant: str, now: float, decisions: Decisions) -> bool:
    """Get one more box under way for a tenant whose waiters find no place."""
    queue = state.queues.queue(tenant)
    if not (state.may_set_up() and state.may_use_another(tenant)):
        return False
    if _boxes_missing(state, tenant, queue) <= 0:
        return False
    if (spare := _unclaimed_start(state)) is not None:
        spare.wanted_by = tenant
        return True
    if not _may_start(state, now):
        return False
    if len(state.boxes) < state.policy.max_boxes:
        decisions.starts.append(state.begin_start(tenant).serial)
        return True
    victim = _victim(state, tenant, queue)
    if victim is None:
        return False
    state.evict(victim, tenant)
    decisions.destroys.append(victim.serial)
    return True


def _boxes_missing(state: PoolState, tenant: str, queue: TenantQueue) -> int:
    """New boxes that a tenant's waiters need beyond those that come back from cleaning or are coming."""
    cleaning = sum(
        box.state is BoxState.RESETTING and box.tenant == tenant and not box.condemned
        for box in state.boxes.values()
    )
    capacity = state.policy.capacity
    plain = max(0, len(queue.plain) - cleaning * capacity)
    return len(queue.fresh) + -(-plain // capacity) - state.coming(tenant)


def _unclaimed_start(state: PoolState) -> Box | None:
    starting = (box for box in state.boxes.values() if box.state is BoxState.STARTING)
    return next((box for box in starting if box.wanted_by is None and not box.condemned), None)


def _may_start(state: PoolState, now: float) -> bool:
    """Whether one more start fits; a box that makes room for another counts as that other's start."""
    under_way = sum(
        box.state is BoxState.STARTING or (box.state is BoxState.DESTROYING and box.wanted_by is not None)
        for box in state.boxes.values()
    )
    return (
        not state.closing
        and under_way < state.policy.max_starting
        and state.backoff.allows(now, state.count(BoxState.STARTING))
    )


def _victim(state: PoolState, tenant: str, queue: TenantQueue) -> Box | None:
    """The idle box that is best given up for a tenant, if any may be."""
    idle = [
        box
        for box in state.boxes.values()
        if box.state is BoxState.IDLE and box.uses and (box.tenant != tenant or queue.fresh)
    ]
    candidates = [box for box in idle if _may_take(state, tenant, box, queue)]
    return min(
        candidates,
        key=lambda box: (
            box.tenant is not None and box.tenant in state.queues,
            -state.holdings(box.tenant or ""),
            box.idle_since,
            box.serial,
        ),
        default=None,
    )


def _may_take(state: PoolState, tenant: str, box: Box, queue: TenantQueue) -> bool:
    owner = box.tenant or ""
    if owner == tenant or owner not in state.queues:
        return True
    ahead = state.queues.queue(owner).served - queue.served
    return state.holdings(owner) > state.holdings(tenant) or ahead >= QUANTUM


def _drop_stale_claims(state: PoolState) -> None:
    for box in state.boxes.values():
        if box.wanted_by is not None and box.wanted_by not in state.queues:
            box.wanted_by = None


def _without_hope(state: PoolState) -> list[Waiter]:
    """Waiters that no living or coming box can serve."""
    hopeless: list[Waiter] = []
    if any(box.state is BoxState.STARTING for box in state.boxes.values()):
        return hopeless
    for tenant in state.queues.tenants():
        served = any(box.tenant == tenant and not box.condemned for box in state.boxes.values())
        if not served:
            hopeless += state.queues.drain(tenant, fresh=False)
        if tenant in state.queues:
            hopeless += state.queues.drain(tenant, fresh=True)
    return hopeless


def _keep_warm(state: PoolState, now: float, decisions: Decisions) -> None:
    """Start boxes until enough can take an instance; those that start or are cleaned count."""
    coming = (BoxState.STARTING, BoxState.RESETTING)
    warm = sum(state.has_room(box) or box.state in coming for box in state.boxes.values())
    while warm < state.policy.min_boxes and len(state.boxes) < state.policy.max_boxes:
        if not _may_start(state, now):
            return
        decisions.starts.append(state.begin_start(None).serial)
        warm += 1
