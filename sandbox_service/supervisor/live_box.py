"""A box that is up, as the instances in it hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.sandboxes.base import Sandbox
    from sandbox_service.wire.frames import Frame

    from .boxes import BoxPool

__all__ = ["LiveBox"]


class LiveBox:
    """A box that is up, as instances hold it."""

    __slots__ = ("doomed", "pool", "sandbox", "serial")

    def __init__(self, pool: BoxPool, serial: int, sandbox: Sandbox) -> None:
        self.pool = pool
        self.serial = serial
        self.sandbox = sandbox
        self.doomed = False
        """It is being destroyed, and answers nothing any more."""

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Ask the runner; see ``Sandbox.request``."""
        if self.doomed:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the sandbox is gone")
        return await self.sandbox.request(frame, timeout_s)

    def is_last(self, instance_id: str) -> bool:
        """Whether the box is to be reset when this instance leaves, and nobody can come before."""
        return self.pool.state.is_last(self.serial, instance_id)

    def leave(self, instance_id: str, *, clean: bool, reset: bool = False) -> None:
        """An instance has left the box, which has been reset with that or not."""
        self.pool.leave(self, instance_id, clean=clean, reset=reset)

    def doom(self, reason: str) -> None:
        """Destroy the box now, whoever is in it."""
        self.pool.doom(self.serial, reason)
