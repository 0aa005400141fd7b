"""A supervisor over fakes, and a caller that speaks frames to it as a gateway does."""

from __future__ import annotations

import itertools
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig, LeaseConfig, PoolConfig, ServiceConfig
from sandbox_service.stream.failures import error_of, reply_or_raise
from sandbox_service.supervisor.core import SupervisorCore
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock
from tests.fakes.environments import fake_registry
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_service.environments.registry import Registry

__all__ = ["Caller", "Supervised", "fake_config", "killed", "supervised"]

_SHORT = DeadlineConfig(start_s=5, create_s=5, step_s=5, evaluate_s=5, release_s=5, drain_s=0.05)
_STEADY = LeaseConfig(sweep_interval_s=3600)


def fake_config(pool: PoolConfig | None = None, **branches: Any) -> ServiceConfig:
    """A configuration whose waits are short and whose maintenance runs when a test says so."""
    branches.setdefault("deadline", _SHORT)
    branches.setdefault("lease", _STEADY)
    return ServiceConfig(pool=pool or PoolConfig(min_boxes=0, max_boxes=2), **branches)


class Caller:
    """One tenant's calls."""

    def __init__(self, core: SupervisorCore, tenant: str = "ada") -> None:
        self._core = core
        self.tenant = tenant
        self._numbers = itertools.count(1)

    async def call(
        self, op: Op, instance_id: str = "", body: Any = None, *, raw: bytes | None = None, **meta: Any
    ) -> Frame:
        """Send a frame and give back the answer, whatever it is."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        meta = {"tenant": self.tenant, "request_id": f"r{next(self._numbers)}", **meta}
        return await self._core.handle(Frame(op, next(self._numbers), instance_id, meta, data))

    async def ask(self, op: Op, instance_id: str = "", body: Any = None, **meta: Any) -> Any:
        """Send a frame; the reply's JSON, or the ServiceError that the answer carries."""
        reply = reply_or_raise(await self.call(op, instance_id, body, **meta))
        return json.loads(reply.body) if reply.body else None

    async def create(self, environment: str = "echo", task_id: str = "echo-10", **fields: Any) -> str:
        """A new instance's id."""
        key = fields.pop("key", None)
        meta = {} if key is None else {"key": key}
        body = {"environment": environment, "task_id": task_id, **fields}
        return str((await self.ask(Op.CREATE, "", body, **meta))["instance_id"])

    async def step(self, instance_id: str, content: str = "hello", **meta: Any) -> Any:
        """One step's result."""
        body = {"instance_id": instance_id, "message": {"role": "assistant", "content": content}}
        return await self.ask(Op.STEP, instance_id, body, **meta)

    async def evaluate(self, instance_id: str, **meta: Any) -> Any:
        """The verdict."""
        return await self.ask(Op.EVALUATE, instance_id, {"instance_id": instance_id}, **meta)

    async def release(self, instance_id: str, **meta: Any) -> bool:
        """Whether this call ended the instance."""
        body = {"instance_id": instance_id}
        return bool((await self.ask(Op.RELEASE, instance_id, body, **meta))["released"])

    async def fork(self, instance_id: str, count: int = 1, **meta: Any) -> list[str]:
        """The copies' ids."""
        body = {"instance_id": instance_id, "count": count}
        return list((await self.ask(Op.FORK, instance_id, body, **meta))["instance_ids"])

    async def states(self) -> dict[str, str]:
        """The tenant's instances and their states."""
        listing = await self.ask(Op.INSTANCES)
        return {each["instance_id"]: each["state"] for each in listing["instances"]}

    async def refusal(self, op: Op, instance_id: str = "", body: Any = None, **meta: Any) -> ErrorCode:
        """The code of the error that a call is answered with."""
        answer = await self.call(op, instance_id, body, **meta)
        assert answer.op is Op.ERROR, answer
        return error_of(answer).code


class Supervised(Caller):
    """A running supervisor over fakes, and its first tenant."""

    def __init__(
        self,
        config: ServiceConfig,
        factory: FakeSandboxFactory,
        store: MemoryTrajectoryStore,
        clock: FakeClock,
        name: str = "s1",
        registry: Registry | None = None,
    ) -> None:
        self.factory = factory
        self.store = store
        self.clock = clock
        self.registry = registry or fake_registry()
        self.core = SupervisorCore(name, config, self.registry, factory, store, clock, node="here")
        super().__init__(self.core)

    def tenant_named(self, tenant: str) -> Caller:
        """Another tenant of the same supervisor."""
        return Caller(self.core, tenant)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and what is due be done."""
        self.clock.advance(seconds)
        self.core.tick()


@asynccontextmanager
async def supervised(
    pool: PoolConfig | None = None,
    *,
    factory: FakeSandboxFactory | None = None,
    store: MemoryTrajectoryStore | None = None,
    clock: FakeClock | None = None,
    name: str = "s1",
    **branches: Any,
) -> AsyncIterator[Supervised]:
    """A started supervisor over fakes, closed at the end."""
    service = Supervised(
        fake_config(pool, **branches),
        factory or FakeSandboxFactory(),
        store or MemoryTrajectoryStore(),
        clock or FakeClock(),
        name,
    )
    await service.core.start()
    try:
        yield service
    finally:
        await service.core.close()


async def killed(service: Supervised, *, lost: int = 0) -> Supervised:
    """The next supervisor after a kill that cost each instance so many of its latest events."""
    await service.core.maintenance.stop()
    for events in service.store.own_events.values():
        del events[len(events) - lost :]
    restarted = Supervised(
        fake_config(), service.factory, service.store, service.clock, registry=service.registry
    )
    await restarted.core.start()
    return restarted
