"""Sandboxes in this process, which can be told to die, hang, fail to start or stay dirty.

``FakeSandboxFactory()`` makes boxes that run real worlds (the echo world, for one) behind real frames. Time
is never waited for: what hangs answers at once that its deadline has passed.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import MAX_BODY, Frame, Op

from .runner import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.environments.base import EnvironmentSpec

__all__ = ["FakeSandbox", "FakeSandboxFactory"]


class FakeSandbox:
    """One box; keeps ``Sandbox``."""

    def __init__(
        self,
        sandbox_id: str,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> None:
        self._sandbox_id = sandbox_id
        self._on_event = on_event
        self._on_death = on_death
        self.spec = spec
        self.runner = FakeRunner(spec)
        self.hanging: set[Op] = set()
        """Operations that get no answer before their deadline, which is said to have passed at once."""
        self.kept_from_starting = 0
        """Number of next steps that wait behind a neighbour that ends their worker."""
        self.largest_body = MAX_BODY
        """Bytes of a body that can be sent."""
        self.hang_destroy = False
        self.resets = 0
        self.sent: list[Frame] = []
        """Frames without an answer."""
        self.alive = True
        self.destroyed = False
        self._gates: dict[Op, asyncio.Event] = {}
        self._death = asyncio.Event()
        self.waiting: asyncio.Event = asyncio.Event()
        """Set once a request has come to a gate."""

    def __repr__(self) -> str:
        return f"<FakeSandbox {self._sandbox_id} instances={sorted(self.runner.places)}>"

    @property
    def sandbox_id(self) -> str:
        return self._sandbox_id

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        await asyncio.sleep(0)
        if not self.alive:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the box is gone")
        if len(frame.body) > self.largest_body:
            raise ServiceError(ErrorCode.BODY_TOO_LARGE, f"frame too large: body {len(frame.body)}")
        if frame.op in self.hanging:
            raise ServiceError(ErrorCode.STEP_TIMEOUT, f"no answer within {timeout_s:g} s")
        if frame.op is Op.STEP and self.kept_from_starting:
            self.kept_from_starting -= 1
            self.runner.places.pop(frame.instance_id, None)
            failure = frame.error("instance_lost", "a neighbour ended the worker of the instance")
            failure.meta["unstarted"] = True
            return failure
        if frame.op in self._gates:
            await self._wait_at(self._gates[frame.op])
            if frame.op is not Op.CREATE and frame.instance_id not in self.runner.places:
                return frame.error("instance_lost", "its worker was killed")
        if not self.alive:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the box died")
        return self.runner.answer(frame)

    async def reset(self) -> bool:
        self.resets += 1
        reply = await self.request(Frame(Op.RESET, 0), 10.0)
        return bool(reply.meta["clean"])

    async def destroy(self) -> None:
        if self.hang_destroy:
            await asyncio.Event().wait()
        self.alive = False
        self._death.set()
        self.destroyed = True

    def hold(self, op: Op) -> None:
        """Let requests of an operation wait until ``let_go``, or until the box dies."""
        self._gates[op] = asyncio.Event()
        self.waiting = asyncio.Event()

    def let_go(self, op: Op) -> None:
        """Let those that wait, and all later ones, through."""
        self._gates.pop(op).set()

    def die(self) -> None:
        """Die, as by ``docker kill``: what runs breaks off, and the owner is told."""
        if self.alive:
            self.alive = False
            self._death.set()
            self._on_death(self._sandbox_id)

    def lose(self, instance_id: str) -> None:
        """A worker dies with an instance, and the runner says so unasked."""
        if self.runner.places.pop(instance_id, None) is not None:
            meta = {"event": "lost", "reason": "its worker died"}
            self._on_event(Frame(Op.EVENT, 0, instance_id, meta))

    async def _wait_at(self, gate: asyncio.Event) -> None:
        self.waiting.set()
        opened = asyncio.ensure_future(gate.wait())
        died = asyncio.ensure_future(self._death.wait())
        try:
            await asyncio.wait({opened, died}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
            died.cancel()


class FakeSandboxFactory:
    """Makes fake boxes; keeps ``SandboxFactory``."""

    kind = "process"
    is_boundary = False
    idle_memory_mib = 32

    def __init__(self, capacity: int | None = None) -> None:
        self._capacity = capacity
        self._numbers = itertools.count(1)
        self.sandboxes: list[FakeSandbox] = []
        """Every box ever started."""
        self.failures: list[Exception] = []
        """Errors of the next starts, in order."""
        self.failing: Exception | None = None
        """Error of every start while it is set."""
        self.gate: asyncio.Event | None = None
        """Starts wait for it, where there is one."""
        self.cut_off = asyncio.Event()
        """Set once a start was cancelled while it waited."""
        self.attempts = 0
        self.swept = 0
        self.closed = False

    @property
    def alive(self) -> list[FakeSandbox]:
        """Boxes of which something is left."""
        return [sandbox for sandbox in self.sandboxes if not sandbox.destroyed]

    def protections(self) -> dict[str, bool]:
        return {"own user ids": True, "own namespaces": False}

    def capacity(self, spec: EnvironmentSpec) -> int:
        return self._capacity or spec.instances_per_box

    async def start(
        self,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> FakeSandbox:
        self.attempts += 1
        await asyncio.sleep(0)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cut_off.set()
                raise
        if self.failures:
            raise self.failures.pop(0)
        if self.failing is not None:
            raise self.failing
        sandbox = FakeSandbox(f"{spec.name}-{next(self._numbers)}", spec, on_event, on_death)
        self.sandboxes.append(sandbox)
        return sandbox

    async def sweep(self) -> int:
        """A supervisor's leftovers are the boxes that nobody destroyed."""
        left = self.alive
        for sandbox in left:
            await sandbox.destroy()
        self.swept += len(left)
        return len(left)

    async def close(self) -> None:
        self.closed = True

    def home_of(self, instance_id: str) -> FakeSandbox:
        """The living box that holds an instance."""
        return next(each for each in self.alive if each.alive and instance_id in each.runner.places)

    def executions(self, instance_id: str, content: str) -> int:
        """Times that any world acted on a message of an instance, replays included."""
        return sum(each.runner.executed[f"{instance_id}/{content}"] for each in self.sandboxes)
