"""Turns: whose request a gateway replica works on next, where several tenants share it.

A replica works on few requests at once and keeps the others in a queue for each tenant. A turn that becomes
free goes to the waiting tenant that holds the fewest, so that a tenant with many clients queues behind
itself and not in front of others. The bound keeps the queues of everything behind the gateway short, too.

The small bound costs throughput, since every hop then works on few requests at a time. So it holds beside
tenants that send less than they may; where every tenant that was heard of lately has requests waiting, or
there is just one, more requests are worked on at once.

What the bounds are for is the time that a request keeps the event loops of gateway, supervisor and box
busy. A request that takes longer than that is executing in its box; it goes on, and its turn is given to
another, so that slow operations are bounded by the boxes and not here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import CapacityError

if TYPE_CHECKING:
    from sandbox_service.config import QuotaConfig


TURN_S = 0.005
"""Seconds after which a request counts as executing."""
_LONGEST_WAIT_S = 10.0
_RETRY_S = 1.0
_RESERVED = 4
"""One turn of so many is never given to a tenant that holds all the others."""
_BUSY_FACTOR = 8
"""How many times as many requests are worked on at once where no tenant could gain by fewer."""
_LATELY_S = 2.0
"""How long a tenant that asked for something may ask again."""


@dataclass(slots=True, eq=False)
class Turn:
    """A request that is worked on."""

    tenant: str
    until: float
    """When it stops to count; 0 when it has ended."""


@dataclass(slots=True, eq=False)
class _Waiter:
    since: float
    turn: asyncio.Future[Turn]


class Turns:
    """The turns of one event loop."""

    def __init__(self, quota: QuotaConfig, waited: Callable[[float], None]) -> None:
        self._at_once = quota.requests_at_once
        self._most_waiting = quota.requests_waiting
        self._waited = waited
        self._running: dict[Turn, None] = {}
        self._held: Counter[str] = Counter()
        self._seen: dict[str, float] = {}
        self._queues: dict[str, deque[_Waiter]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(map(len, self._queues.values()))

    async def take(self, tenant: str) -> Turn:
        """A turn for the tenant, at once or after others. Raises CapacityError(QUEUE_FULL)."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._expire(now)
        self._seen[tenant] = now
        queue = self._queues.get(tenant)
        if queue is None and self._has_room(tenant):
            return self._start(tenant, now)
        if queue is None:
            queue = self._queues[tenant] = deque()
        if len(queue) >= self._most_waiting:
            detail = f"{len(queue)} requests of the tenant wait for their turn (quota.requests_waiting)"
            raise CapacityError(detail, _RETRY_S)
        waiter = _Waiter(now, loop.create_future())
        queue.append(waiter)
        self._watch(loop)
        try:
            turn = await waiter.turn
        except asyncio.CancelledError:
            self._give_up(tenant, waiter)
            raise
        self._waited(loop.time() - waiter.since)
        return turn

    def end(self, turn: Turn) -> None:
        """The request was answered. Idempotent."""
        if self._stop(turn) and self._queues:
            self._pass_on(asyncio.get_running_loop().time())

    def _has_room(self, tenant: str) -> bool:
        most = self._at_once
        if not any(other != tenant and other not in self._queues for other in self._seen):
            most *= _BUSY_FACTOR
        return len(self._running) < most and self._held[tenant] < most - max(1, most // _RESERVED)

    def _start(self, tenant: str, now: float) -> Turn:
        turn = Turn(tenant, now + TURN_S)
        self._running[turn] = None
        self._held[tenant] += 1
        return turn

    def _stop(self, turn: Turn) -> bool:
        if not turn.until:
            return False
        turn.until = 0.0
        del self._running[turn]
        self._held[turn.tenant] -= 1
        if not self._held[turn.tenant]:
            del self._held[turn.tenant]
        return True

    def _expire(self, now: float) -> None:
        """Turns begin in order, so those that no longer count come first."""
        while self._running and (first := next(iter(self._running))).until <= now:
            self._stop(first)

    def _pass_on(self, now: float) -> None:
        while self._queues and (tenant := self._next_tenant()) is not None:
            queue = self._queues.pop(tenant)
            waiter = queue.popleft()
            if queue:
                # At the end, so that tenants that hold as many take turns.
                self._queues[tenant] = queue
            if not waiter.turn.done():
                waiter.turn.set_result(self._start(tenant, now))

    def _next_tenant(self) -> str | None:
        with_room = [tenant for tenant in self._queues if self._has_room(tenant)]
        return min(with_room, key=self._held.__getitem__, default=None)

    def _give_up(self, tenant: str, waiter: _Waiter) -> None:
        if waiter.turn.done() and not waiter.turn.cancelled():
            if waiter.turn.exception() is None:
                self.end(waiter.turn.result())
            return
        queue = self._queues.get(tenant)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[tenant]

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """While requests wait, look when the next turn stops to count."""
        if self._alarm is None and self._queues:
            self._alarm = loop.call_later(TURN_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        now = loop.time()
        self._expire(now)
        self._refuse_late(now)
        self._seen = {tenant: at for tenant, at in self._seen.items() if at + _LATELY_S > now}
        self._pass_on(now)
        self._watch(loop)

    def _refuse_late(self, now: float) -> None:
        for tenant, queue in list(self._queues.items()):
            while queue and queue[0].since + _LONGEST_WAIT_S <= now:
                waiter = queue.popleft()
                if not waiter.turn.done():
                    detail = f"the request's turn did not come within {_LONGEST_WAIT_S:g} s"
                    waiter.turn.set_exception(CapacityError(detail, _RETRY_S, ErrorCode.QUEUE_FULL))
            if not queue:
                del self._queues[tenant]
