"""The lease under which a supervisor answers for its instances.

The supervisor renews it in the database several times within its duration. Without the lease, operations are
refused, since another supervisor may have claimed the instances: the database refuses their records anyway,
and this keeps answers that nothing records, such as files, from a supervisor that is cut off.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore

    from .clock import Clock


_RENEWALS = 4
"""Renewals within the duration of a lease."""

logger = get_logger(__name__)


class SupervisorLease:
    """Takes and renews the lease of one supervisor."""

    def __init__(self, *, name: str, store: TrajectoryStore, clock: Clock, duration_s: float) -> None:
        self._name = name
        self._store = store
        self._clock = clock
        self._duration_s = duration_s
        self._held_until = -math.inf
        self._renewing = asyncio.Lock()
        self._loop: asyncio.Task[None] | None = None
        self.fenced = asyncio.Event()
        """Set when another process has taken over; this one cannot get the lease back."""

    def is_held(self) -> bool:
        """Return whether nobody else can have taken over."""
        return self._clock.monotonic() < self._held_until and not self._store.is_fenced()

    def is_lost(self) -> bool:
        """Return whether another process has taken over."""
        return self.fenced.is_set() or self._store.is_fenced()

    async def acquire(self) -> None:
        """Take the lease; an earlier process of this supervisor's name loses it. Raises ServiceError."""
        # Read before the call: the lease counts from a moment at which the database has it already.
        began = self._clock.monotonic()
        await self._store.acquire_lease(self._name)
        self._held_until = began + self._duration_s

    async def require(self) -> None:
        """Renew a lease that has run out. Raises ServiceError: SUPERVISOR_UNAVAILABLE or STORAGE_FULL."""
        async with self._renewing:
            if not self.is_held():
                await self._renew()

    def start(self) -> None:
        """Start to renew the lease."""
        self._loop = asyncio.get_running_loop().create_task(self._renew_forever())

    async def stop(self) -> None:
        """Stop renewing it."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})

    async def _renew_forever(self) -> None:
        while not self.fenced.is_set():
            await asyncio.sleep(self._duration_s / _RENEWALS)
            try:
                async with self._renewing:
                    await self._renew()
            except ServiceError as error:
                logger.warning("supervisor_lease_not_renewed", supervisor=self._name, reason=error.detail)

    async def _renew(self) -> None:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._duration_s):
                await self._store.renew_lease()
        except TimeoutError:
            detail = f"the trajectory store did not answer within {self._duration_s:g} s"
            raise ServiceError(ErrorCode.STORAGE_FULL, detail) from None
        except ServiceError as error:
            if error.code is ErrorCode.SUPERVISOR_UNAVAILABLE:
                self._held_until = -math.inf
                self.fenced.set()
            raise
        self._held_until = began + self._duration_s
