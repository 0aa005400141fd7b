"""A running box of a pool, as the instances in it use it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, UnsentError
from sandbox_service.trajectories.records import public_id
from sandbox_service.wire.frames import Frame, Op

from .tracing import traced_request

if TYPE_CHECKING:
    from sandbox_service.sandboxes.base import Sandbox

    from .box_pool import BoxPool
    from .model_tunnel import ModelTunnel


_GRACE_S = 30.0
"""Seconds after an operation's own deadline in which the runner may still answer. The runner enforces that
deadline itself, but on a busy machine it may be scheduled late."""
_PING_S = 30.0
"""Seconds in which a runner that is late with an operation must answer a ping."""
_WITH_TASK = (Op.CREATE, Op.EVALUATE)
"""Operations with which the supervisor sends data of the task; the others carry what the caller sent."""


class PooledBox:
    """A running sandbox, and its pool."""

    __slots__ = ("_ping_task", "discarded", "pool", "sandbox", "serial", "tunnels")

    def __init__(self, pool: BoxPool, serial: int, sandbox: Sandbox) -> None:
        self.pool = pool
        self.serial = serial
        self.sandbox = sandbox
        self.discarded = False
        """It is being destroyed and takes no further requests."""
        self.tunnels: dict[str, ModelTunnel] = {}
        """The model connections of agents that run in it, by the public id of their instance."""
        self._ping_task: asyncio.Future[bool] | None = None

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a request to the runner; see ``Sandbox.request``."""
        if self.discarded:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the sandbox has been destroyed")
        traced = traced_request.get()
        if traced is None:
            return await self.sandbox.request(frame, timeout_s)
        return await traced.call_box(self.sandbox, frame, timeout_s)

    async def execute(self, frame: Frame, deadline_s: float) -> Frame:
        """Send an operation whose deadline the runner enforces.

        Raises ServiceError, and UnsentError if the frame is too large to be sent. The box is destroyed if its
        runner is dead: its connection is closed, or it is late and does not answer a ping either. One late
        operation does not end the other instances, nor does one that was not sent.
        """
        try:
            return await self.request(frame, deadline_s + _GRACE_S)
        except ServiceError as error:
            if error.code is ErrorCode.BODY_TOO_LARGE:
                raise _unsent(frame, error) from error
            if error.code is not ErrorCode.STEP_TIMEOUT or not await self._is_alive():
                self.discard(error.detail)
            raise

    async def _is_alive(self) -> bool:
        """Return whether the runner answers a ping; operations that are late at the same time share one."""
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

    async def clear(self, instance_id: str, limit_s: float) -> None:
        """Have the runner clear the slot of an instance, and give it back; after its last one reset the box.

        Never raises ServiceError. A box that is late may still serve its other instances, so it is not
        destroyed here; the pool notices a dead one by its connection.
        """
        clean = reset = False
        # In one request, with one check for leftovers.
        meta = {"deadline_s": limit_s, "reset": self.is_last(instance_id)}
        try:
            reply = await self.request(Frame(Op.RELEASE, 0, public_id(instance_id), meta), limit_s)
            clean = reply.op is Op.REPLY and reply.meta.get("clean") is True
            reset = reply.meta.get("reset") is True
        except ServiceError:
            clean = False
        finally:
            self.leave(instance_id, clean=clean, reset=reset)

    def is_last(self, instance_id: str) -> bool:
        """Return whether the box is reset when this instance leaves, with no instance entering before."""
        return self.pool.state.is_last(self.serial, instance_id)

    def leave(self, instance_id: str, *, clean: bool, reset: bool = False) -> None:
        """Note that an instance has left, and whether its slot was clean and the box was reset with it."""
        self.pool.leave(self, instance_id, clean=clean, reset=reset)

    def discard(self, reason: str) -> None:
        """Destroy the box at once; the instances in it lose their state."""
        self.pool.discard(self.serial, reason)


def _unsent(frame: Frame, error: ServiceError) -> UnsentError:
    """Return the error of a frame that is too large, by whose data it carries."""
    if frame.op in _WITH_TASK:
        detail = f"the task's data do not fit into a message to its box ({error.detail})"
        return UnsentError(ErrorCode.TASK_INVALID, detail)
    return UnsentError(error.code, f"the request does not fit into a message to the box ({error.detail})")
