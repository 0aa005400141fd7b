"""Does the regular work: expires leases, drops old tombstones, hands over instances, lets pools decide again.

A failure of one instance is logged and does not keep the others from expiring.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from .clock import Clock
    from .handover import Handover
    from .instances import InstanceTable
    from .journal import Journal
    from .pools import Pools
    from .termination import Termination


logger = get_logger(__name__)


class Maintenance:
    """The maintenance loop of a supervisor."""

    def __init__(
        self,
        *,
        table: InstanceTable,
        journal: Journal,
        termination: Termination,
        handover: Handover,
        pools: Pools,
        clock: Clock,
        interval_s: float,
    ) -> None:
        self._table = table
        self._journal = journal
        self._termination = termination
        self._handover = handover
        self._pools = pools
        self._clock = clock
        self._interval_s = interval_s
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop."""
        self._loop = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop the loop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})

    def tick(self) -> None:
        """Do what is due now."""
        with contextlib.suppress(ServiceError):
            self._journal.write_backlog()
        for lease in self._table.leases.run_out(self._clock.monotonic()):
            instance = self._table.by_id(lease.instance_id)
            if instance is None:
                continue
            try:
                self._termination.expire(instance)
            except Exception:  # capture point: one failed expiry must not end the loop
                logger.exception("expiry_failed", instance_id=lease.instance_id)
        self._table.drop_old_tombstones()
        self._handover.hand_over_idle()
        # Last: instances that have just expired made room.
        self._pools.decide()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                self.tick()
            except Exception:  # capture point: the loop goes on with the next round
                logger.exception("maintenance_failed")
