"""The gateway's backend without a stream: frames go straight into a supervisor of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError
from sandbox_service.fleet.replies import FleetReplies
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.supervisor.core import SupervisorCore


class SupervisorBackend:
    """Implements the gateway's Backend protocol."""

    def __init__(self, cores: Sequence[SupervisorCore]) -> None:
        self._cores = list(cores)

    async def call(
        self,
        op: Op,
        *,
        tenant: str,
        instance_id: str,
        meta: Mapping[str, object],
        body: bytes,
        timeout_s: float,
    ) -> Frame:
        frame = Frame(op, 1, instance_id, {**meta, "tenant": tenant}, body)
        return reply_or_raise(await self._cores[0].handle(frame))

    async def call_all(
        self, op: Op, *, tenant: str, meta: Mapping[str, object], body: bytes, timeout_s: float
    ) -> FleetReplies:
        frames = []
        for core in self._cores:
            try:
                answer = await core.handle(Frame(op, 1, "", {**meta, "tenant": tenant}, body))
                frames.append(reply_or_raise(answer))
            except ServiceError:
                continue
        return FleetReplies(tuple(frames))

    def excluded_supervisors(self) -> Mapping[str, str]:
        return {}
