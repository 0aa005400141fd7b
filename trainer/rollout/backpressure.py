"""Limit concurrent episodes to the configured number and to what the service has room for.

The limit follows the service's statistics. An episode whose create request queues holds an unused slot, so
the limit falls to the episodes that have instances; when nothing queues and all slots are in use, it doubles.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from sandbox_client.errors import SandboxError

if TYPE_CHECKING:
    from sandbox_contract.inspection import PoolStats, Stats


class StatsService(Protocol):
    """The part of the service's client that is used."""

    async def stats(self) -> Stats:
        """Return boxes, instances and queues of the fleet."""
        ...


class Slots:
    """A semaphore for episodes, first come first served, whose size may change at any time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """Number of episodes that wait for a slot."""
        return len(self._waiting)

    async def acquire(self) -> None:
        """Take a slot as soon as one is free."""
        if self.held < self.limit and not self._waiting:
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # It got a slot and was cancelled before it ran again: the slot is the next one's.
            if turn.done() and not turn.cancelled():
                self.release()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Return a slot."""
        self.held -= 1
        self._wake()

    def resize(self, limit: int) -> None:
        """Change the number of slots; those in use stay in use."""
        self.limit = limit
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.held < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                # Counted here: before the waiter runs again, a newcomer could take the slot, too.
                self.held += 1
                turn.set_result(None)


def pools_of(stats: Stats, environments: Collection[str]) -> tuple[PoolStats, ...]:
    """Return the environments' pools on all supervisors that accept new instances."""
    return tuple(
        pool
        for supervisor in stats.supervisors
        if not supervisor.draining
        for pool in supervisor.pools
        if pool.environment in environments
    )


def first_limit(concurrency: int, pools: Sequence[PoolStats]) -> int:
    """Return the initial number of slots: two episodes per box that the service may have."""
    most = sum(pool.max_boxes for pool in pools)
    return min(concurrency, 2 * most) if most else concurrency


def adjusted(limit: int, held: int, creating: int, concurrency: int, pools: Sequence[PoolStats]) -> int:
    """Return the new limit; ``creating`` of the ``held`` episodes wait for an instance."""
    queued = min(creating, sum(pool.queued for pool in pools))
    if queued:
        soon = sum(pool.idle + pool.starting for pool in pools)
        return max(1, min(concurrency, held - queued + min(soon, queued)))
    if held >= limit:
        return min(concurrency, 2 * limit)
    return min(concurrency, limit)


async def follow_pool(
    service: StatsService,
    environments: Collection[str],
    slots: Slots,
    concurrency: int,
    creating: Callable[[], int],
    every_s: float = 1.0,
) -> None:
    """Adjust the slots to the service's room until cancelled; without statistics they stay the same."""
    known = False
    while True:
        try:
            pools = pools_of(await service.stats(), environments)
        except SandboxError:
            pools = ()
        if pools and not known:
            slots.resize(first_limit(concurrency, pools))
            known = True
        elif pools:
            slots.resize(adjusted(slots.limit, slots.held, creating(), concurrency, pools))
        await asyncio.sleep(every_s)
