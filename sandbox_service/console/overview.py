"""The overview: boxes by node, the visitor's live instances, latencies and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.inspection import InstanceStatus, PoolStats, SupervisorStats

    from .traffic import Traffic


LIVE_STATES = ("creating", "active", "finished")


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar, in percent of its width."""

    kind: str
    start: float
    width: float
    count: int


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool of boxes on a node."""

    node: str
    supervisor: str
    flags: tuple[str, ...]
    """States of the supervisor that need attention."""
    pool: PoolStats
    bar: tuple[BarPart, ...]
    """The boxes by state, as shares of the most that there may be."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of the page."""

    name: str
    value: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """All that the page shows."""

    tiles: tuple[Tile, ...]
    pools: tuple[PoolRow, ...]
    supervisors_without_pools: tuple[SupervisorStats, ...]
    instances: tuple[InstanceStatus, ...]
    unlisted: int
    """Live instances of the visitor's tenant that are not listed."""
    traffic: Traffic


def overview(
    fleet: Sequence[SupervisorStats],
    instances: Sequence[InstanceStatus],
    *,
    live: int,
    waiting: int,
    traffic: Traffic,
) -> Overview:
    """Return the page's contents. ``live`` is the number of the tenant's live instances, of which the newest
    are listed, ``waiting`` that of its requests that wait at this replica.
    """
    rows = tuple(
        PoolRow(each.node, each.name, _flags(each), pool, _bar(pool)) for each in fleet for pool in each.pools
    )
    shown = tuple(one for one in instances if one.state in LIVE_STATES)
    boxes = sum(row.pool.starting + row.pool.idle + row.pool.busy + row.pool.resetting for row in rows)
    return Overview(
        tiles=(
            Tile(
                "nodes",
                len({each.node for each in fleet}),
                f"{len(fleet)} supervisor" + ("s" if len(fleet) != 1 else ""),
            ),
            Tile("boxes", boxes, f"{sum(row.pool.idle for row in rows)} warm and free"),
            Tile("live instances", sum(each.live_instances for each in fleet), "of all tenants"),
            Tile("your live instances", live),
            Tile("creates that wait", sum(row.pool.queued for row in rows), "for a box"),
            Tile("your requests that wait", waiting, "at this gateway"),
        ),
        pools=rows,
        supervisors_without_pools=tuple(each for each in fleet if not each.pools),
        instances=shown,
        unlisted=max(0, live - len(instances)),
        traffic=traffic,
    )


def _flags(supervisor: SupervisorStats) -> tuple[str, ...]:
    flags = {"draining": supervisor.draining, "store refuses records": not supervisor.storing}
    return tuple(name for name, holds in flags.items() if holds)


def _bar(pool: PoolStats) -> tuple[BarPart, ...]:
    counts = {"busy": pool.busy, "idle": pool.idle, "starting": pool.starting, "resetting": pool.resetting}
    whole = max(pool.most_boxes, sum(counts.values()), 1)
    parts: list[BarPart] = []
    start = 0.0
    for kind, count in counts.items():
        width = 100 * count / whole
        if count:
            parts.append(BarPart(kind, round(start, 2), round(width, 2), count))
        start += width
    return tuple(parts)
