"""A box that is up, as the instances in it hold it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.sandboxes.base import Sandbox

    from .box_pool import BoxPool


_GRACE_S = 30.0
"""How long after an operation's own deadline the runner may still answer. The runner keeps that deadline
itself; on a busy machine it gets its turn late."""
_PING_S = 30.0
"""How long a runner that is late with an operation may take to answer a ping."""


class PooledBox:
    """A box that is up, as instances hold it."""

    __slots__ = ("_ping_task", "discarded", "pool", "sandbox", "serial")

    def __init__(self, pool: BoxPool, serial: int, sandbox: Sandbox) -> None:
        self.pool = pool
        self.serial = serial
        self.sandbox = sandbox
        self.discarded = False
        """It is being destroyed, and answers nothing any more."""
        self._ping_task: asyncio.Future[bool] | None = None

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Ask the runner; see ``Sandbox.request``."""
        if self.discarded:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the sandbox is gone")
        return await self.sandbox.request(frame, timeout_s)

    async def execute(self, frame: Frame, deadline_s: float) -> Frame:
        """Ask for an operation whose deadline the runner keeps.

        Raises ServiceError. The box is destroyed when its runner is dead: its connection is gone, or it is
        late and does not answer a ping either. An operation that is late alone costs no neighbour its life.
        """
        try:
            return await self.request(frame, deadline_s + _GRACE_S)
        except ServiceError as error:
            if error.code is not ErrorCode.STEP_TIMEOUT or not await self._is_alive():
                self.discard(error.detail)
            raise

    async def _is_alive(self) -> bool:
        """Whether the runner answers a ping; several late operations ask once."""
        if self._ping_task is None:
            self._ping_task = asyncio.ensure_future(self._ping())
        return await asyncio.shield(self._ping_task)

    async def _ping(self) -> bool:
        try:
            await self.request(Frame(Op.PING, 0), _PING_S)
        except ServiceError:
            return False
        finally:
            self._ping_task = None
        return True

    def is_last(self, instance_id: str) -> bool:
        """Whether the box is to be reset when this instance leaves, and nobody can come before."""
        return self.pool.state.is_last(self.serial, instance_id)

    def leave(self, instance_id: str, *, clean: bool, reset: bool = False) -> None:
        """An instance has left the box, which has been reset with that or not."""
        self.pool.leave(self, instance_id, clean=clean, reset=reset)

    def discard(self, reason: str) -> None:
        """Destroy the box now, whoever is in it."""
        self.pool.discard(self.serial, reason)
