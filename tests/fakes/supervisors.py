"""A supervisor's core that keeps instances in a dictionary: what fleet and stream tests talk to."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, ServiceError
from sandbox_service.stream.failures import error_frame
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.supervisor.options import SupervisorOptions

__all__ = ["FakeCore", "build_fake_core"]


class FakeCore:
    """Answers CREATE, STEP, RELEASE, INSTANCES and STATS; counts what it executed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.draining = False
        self.started = False
        self.closed = False
        self.refusal: ServiceError | None = None
        """The answer to every frame while it is set."""
        self.refusals: list[ServiceError] = []
        """The answers to the next frames."""
        self.gate = asyncio.Event()
        """Steps wait for it."""
        self.gate.set()
        self.arrived = asyncio.Event()
        """Set with the first frame."""
        self.fenced = asyncio.Event()
        """Set by a test: another supervisor has taken over."""
        self.takes_over = False
        """Instances and creates of others are taken over when a gateway asks for it."""
        self.owner_on_record: str | None = None
        """The owner that the store names of what is not here; empty for none, None without a shared store."""
        self.lacks: ServiceError | None = None
        """The refusal of what it is asked to take over, for want of image or room."""
        self.lease_over = False
        """An instance that no node can take over is lost."""
        self.held = 0
        """Number of such requests that are refused first, since the owner's lease holds."""
        self.instances: dict[str, int] = {}
        self.handled: list[Frame] = []

    async def start(self) -> None:
        self.started = True

    async def drain(self) -> None:
        self.draining = True

    async def begin_drain(self, *, move: bool) -> None:
        self.draining = True

    async def cancel_drain(self) -> None:
        self.draining = False

    async def wait_fenced(self) -> None:
        await self.fenced.wait()

    async def close(self) -> None:
        self.closed = True

    async def handle(self, frame: Frame) -> Frame:
        self.handled.append(frame)
        self.arrived.set()
        try:
            if self.refusals:
                raise self.refusals.pop(0)
            if self.refusal is not None:
                raise self.refusal
            return await self._answer(frame)
        except ServiceError as error:
            return error_frame(frame, error)

    async def _answer(self, frame: Frame) -> Frame:
        if frame.op is Op.CREATE:
            return self._create(frame)
        if frame.op is Op.STATS:
            stats = {"name": self.name, "draining": self.draining, "node": "here", "uptime_s": 1, "pools": []}
            return frame.reply(json.dumps(stats).encode())
        if frame.op is Op.INSTANCES and not frame.instance_id:
            return frame.reply(json.dumps(sorted(self.instances)).encode())
        if frame.op is Op.INSTANCES:
            return self._status(frame)
        if self.takes_over and self._is_left_by(frame.meta.get("take_over_from")):
            self._take_over(frame.instance_id, last_resort=bool(frame.meta.get("last_resort")))
        if frame.instance_id not in self.instances and self.owner_on_record is not None:
            raise MovedError(f"{self.name} has no {frame.instance_id}", self.owner_on_record)
        if frame.instance_id not in self.instances:
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"{self.name} has no {frame.instance_id}")
        await self.gate.wait()
        self.instances[frame.instance_id] += 1
        if frame.op is Op.RELEASE:
            del self.instances[frame.instance_id]
        return frame.reply(frame.body, {"run_ms": 0.0})

    def _status(self, frame: Frame) -> Frame:
        owner = self.owner_on_record
        if frame.instance_id in self.instances:
            return frame.reply(self.name.encode())
        if owner is None:
            raise ServiceError(ErrorCode.UNKNOWN_INSTANCE, f"{self.name} has no {frame.instance_id}")
        if owner not in ("", frame.meta.get("take_over_from")):
            raise MovedError(f"{self.name} has no {frame.instance_id}", owner)
        return frame.reply(b"record", {"recorded": True})

    def _is_left_by(self, named: object) -> bool:
        return named is not None and self.owner_on_record in (None, named)

    def _take_over(self, instance_id: str, *, last_resort: bool) -> None:
        if self.draining:
            raise ServiceError(ErrorCode.DRAINING, retry_after_s=1.0)
        if self.lacks is not None and last_resort and self.lease_over:
            raise ServiceError(ErrorCode.INSTANCE_LOST)
        if self.lacks is not None:
            raise self.lacks
        self._check_lease()
        self.instances.setdefault(instance_id, 0)

    def _check_lease(self) -> None:
        if self.held:
            self.held -= 1
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "the lease holds", retry_after_s=1.0)

    def _create(self, frame: Frame) -> Frame:
        if self.draining:
            raise ServiceError(ErrorCode.DRAINING, retry_after_s=1.0)
        if "take_over_from" in frame.meta and not self.takes_over:
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, "the store is not shared", retry_after_s=1.0)
        if "take_over_from" in frame.meta:
            self._check_lease()
        instance_id = frame.instance_id or f"{self.name}.{len(self.instances):032x}"
        self.instances[instance_id] = 0
        return frame.reply(json.dumps({"instance_id": instance_id}).encode())


def build_fake_core(options: SupervisorOptions) -> FakeCore:
    """A builder as the composition root has one."""
    return FakeCore(options.name)
