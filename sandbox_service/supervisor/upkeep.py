"""What is done as time passes: leases run out, old tombstones go, pools decide again.

The loop is supervised: whatever one instance's ending raises, the next one's goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from .parts import Parts


logger = get_logger(__name__)


class Upkeep:
    """The supervisor's regular work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the loop."""
        self._loop = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})

    def tick(self) -> None:
        """Do what is due now."""
        parts = self._parts
        with contextlib.suppress(ServiceError):
            parts.journal.settle()
        for lease in parts.table.leases.run_out(parts.clock.monotonic()):
            instance = parts.table.by_id(lease.instance_id)
            if instance is None:
                continue
            try:
                parts.endings.expire(instance)
            except Exception:  # capture point: one release never ends the loop
                logger.exception("expiry_failed", instance_id=lease.instance_id)
        parts.table.forget_old()
        parts.pools.decide()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._parts.config.lease.sweep_interval_s)
            try:
                self.tick()
            except Exception:  # capture point: the loop outlives any one round
                logger.exception("upkeep_failed")
