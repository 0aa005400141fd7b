"""The release verb: idempotent, never behind a running operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.contract.episodes import ReleaseInstanceResult
from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .instances import InstanceState

if TYPE_CHECKING:
    from sandbox_service.runner.frames import Frame

    from .instances import Instance
    from .parts import Parts
    from .recovery import Recovery

__all__ = ["Releases"]

_GONE = (ErrorCode.INSTANCE_RELEASED, ErrorCode.INSTANCE_EXPIRED, ErrorCode.INSTANCE_LOST)


class Releases:
    """Ends instances for their owners."""

    def __init__(self, parts: Parts, recovery: Recovery) -> None:
        self._parts = parts
        self._recovery = recovery

    async def release(self, frame: Frame) -> Frame:
        """End the instance; an id that had ended before is answered, one that never was is refused."""
        started = self._parts.clock.monotonic()
        instance = await self._find(frame)
        if instance is None:
            body = _body(frame, released=self._ended_by_this_key(frame))
            return frame.reply(body, self._timing(started))
        if instance.state is InstanceState.CREATING:
            raise ServiceError(ErrorCode.INSTANCE_BUSY, "the instance is being created")
        body = _body(frame, released=True)
        await self._parts.endings.release(instance, frame, body)
        return frame.reply(body, self._timing(started))

    async def _find(self, frame: Frame) -> Instance | None:
        """The live instance; None when it has ended."""
        tenant, instance_id = frame.meta["tenant"], frame.instance_id
        try:
            instance = self._parts.table.find(tenant, instance_id)
            if instance is None:
                adopt = frame.meta.get("adopt") is True
                instance = await self._recovery.find(tenant, instance_id, adopt=adopt)
        except ServiceError as error:
            if error.code in _GONE:
                return None
            raise
        return instance

    def _ended_by_this_key(self, frame: Frame) -> bool:
        tombstone = self._parts.table.tombstone(frame.meta["tenant"], frame.instance_id)
        key = frame.meta.get("key")
        return tombstone is not None and key is not None and tombstone.ended_by_key == key

    def _timing(self, started: float) -> dict[str, float]:
        total = (self._parts.clock.monotonic() - started) * 1000
        return {"queue_ms": 0.0, "route_ms": round(total, 3), "run_ms": 0.0}


def _body(frame: Frame, *, released: bool) -> bytes:
    result = ReleaseInstanceResult(instance_id=frame.instance_id, released=released)
    return result.model_dump_json().encode()
