"""How many episodes are played at a time: what was configured, less what the service has no room for.

The service's statistics decide. Creates that queue are episodes that hold a slot and do nothing, so the limit
falls to those that were served; once nothing queues and all slots are in use, it doubles.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from sandbox_client.errors import SandboxError

if TYPE_CHECKING:
    from sandbox_contract.inspection import PoolStats, Stats


class StatsService(Protocol):
    """What of the service's client is needed."""

    async def stats(self) -> Stats:
        """Boxes, instances and queues of the fleet."""
        ...


class Slots:
    """Room for episodes, first come first served; its size may change at any time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._waiting)

    async def acquire(self) -> None:
        """Take a slot, as soon as there is one."""
        if self.held < self.limit and not self._waiting:
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.held -= 1
        self._wake()

    def resize(self, limit: int) -> None:
        """Change how many there are; those in use stay in use."""
        self.limit = limit
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.held < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.held += 1
                turn.set_result(None)


def pools_of(stats: Stats, environment: str) -> tuple[PoolStats, ...]:
    """The environment's pools on all supervisors that take new instances."""
    return tuple(
        pool
        for supervisor in stats.supervisors
        if not supervisor.draining
        for pool in supervisor.pools
        if pool.environment == environment
    )


def first_limit(concurrency: int, pools: Sequence[PoolStats]) -> int:
    """Slots to begin with: two episodes for each box that the service may have."""
    most = sum(pool.max_boxes for pool in pools)
    return min(concurrency, 2 * most) if most else concurrency


def adjusted(limit: int, held: int, creating: int, concurrency: int, pools: Sequence[PoolStats]) -> int:
    """The limit after a look at the pools; ``creating`` of our ``held`` episodes wait for a sandbox."""
    queued = min(creating, sum(pool.queued for pool in pools))
    if queued:
        soon = sum(pool.idle + pool.starting for pool in pools)
        return max(1, min(concurrency, held - queued + min(soon, queued)))
    if held >= limit:
        return min(concurrency, 2 * limit)
    return min(concurrency, limit)


async def follow_pool(
    service: StatsService,
    environment: str,
    slots: Slots,
    concurrency: int,
    creating: Callable[[], int],
    every_s: float = 1.0,
) -> None:
    """Keep the slots to what the service has room for, until cancelled; without statistics they stay."""
    known = False
    while True:
        try:
            pools = pools_of(await service.stats(), environment)
        except SandboxError:
            pools = ()
        if pools and not known:
            slots.resize(first_limit(concurrency, pools))
            known = True
        elif pools:
            slots.resize(adjusted(slots.limit, slots.held, creating(), concurrency, pools))
        await asyncio.sleep(every_s)
