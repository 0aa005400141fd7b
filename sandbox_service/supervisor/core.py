"""The supervisor without Ray: answers frames, owns the boxes and instances of one node.

``handle`` is called concurrently by the stream's server, and never raises: every failure is an ERROR frame.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_contract.inspection import SupervisorStats
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_frame
from sandbox_service.wire.frames import Frame, Op

from .answers import AnswerMemory
from .background import BackgroundTasks
from .clock import Clock, SystemClock
from .creation import Creation
from .endings import Endings
from .exclusive import ExclusiveExecutor
from .executions import failure_frame
from .forks import Forks
from .inspection import Inspection
from .instances import InstanceTable
from .journal import Journal
from .operations import InstanceOperations
from .parts import Parts
from .pools import Pools
from .recovery import Recovery
from .releases import Releases
from .upkeep import Upkeep

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.registry import Registry
    from sandbox_service.sandboxes.base import SandboxFactory
    from sandbox_service.trajectories.base import TrajectoryStore

    from .exclusive import Operation

    Verb = Callable[[Frame], Awaitable[Frame]]


class SupervisorCore:
    """One node's supervisor. Owns what it starts; the factory and the store belong to whoever made them."""

    def __init__(
        self,
        name: str,
        config: ServiceConfig,
        registry: Registry,
        factory: SandboxFactory,
        store: TrajectoryStore,
        clock: Clock | None = None,
        node: str = "",
    ) -> None:
        self._parts = _put_together(name, config, registry, factory, store, clock or SystemClock())
        self._factory = factory
        self._node = node or platform.node()
        self._began = self._parts.clock.monotonic()
        self._creation = Creation(self._parts)
        self._recovery = Recovery(self._parts)
        self._upkeep = Upkeep(self._parts)
        self._verbs = self._table_of_verbs()
        self._began_life = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<SupervisorCore {self._parts.name} instances={len(self._parts.table)}>"

    @property
    def draining(self) -> bool:
        """Whether new instances are refused."""
        return self._creation.refusing

    async def start(self) -> None:
        """Clear what an earlier life left, warm the pools and begin the upkeep."""
        await self._parts.pools.start()
        await self._recovery.settle_earlier_life()
        self._began_life = True
        await self._creation.recall()
        if self._parts.config.tenants > 1:
            # Reads the history of a day, for which the first creates need not wait.
            self._parts.tasks.spawn(self._parts.journal.recall(self._parts.name))
        self._upkeep.start()

    async def handle(self, frame: Frame) -> Frame:
        """Answer one frame of a gateway."""
        try:
            verb = self._verbs.get(frame.op)
            if verb is not None and isinstance(frame.meta.get("tenant"), str):
                return await verb(frame)
        except ServiceError as error:
            return error_frame(frame, error)
        except Exception as error:  # noqa: BLE001  # capture point: the stream gets an answer, never a traceback
            return failure_frame(frame, error)
        detail = f"{frame.op.name} is no operation, or names no tenant"
        return error_frame(frame, ServiceError(ErrorCode.INVALID_REQUEST, detail))

    def tick(self) -> None:
        """Do now what time has brought; the upkeep loop does it by itself."""
        self._upkeep.tick()

    def stats(self) -> SupervisorStats:
        """The supervisor in numbers."""
        return SupervisorStats(
            name=self._parts.name,
            node=self._node,
            draining=self.draining,
            storing=self._parts.journal.open_for_writing(),
            uptime_s=self._parts.clock.monotonic() - self._began,
            protections=self._factory.protections(),
            pools=self._parts.pools.stats(),
        )

    async def drain(self) -> None:
        """Refuse new instances, and let what runs finish until the deadline."""
        self._creation.refusing = True
        await self._parts.tasks.finish(self._parts.config.deadline.drain_s)

    async def close(self) -> None:
        """Drain, settle the instances that are left, destroy all boxes and flush the store. Idempotent.

        Instances of deterministic environments stay on record for the next life; the others are lost.
        """
        if self._closed:
            return
        self._closed = True
        await self.drain()
        await self._upkeep.stop()
        await self._parts.tasks.cancel()
        for instance in self._parts.table.live():
            self._parts.endings.state_lost(instance.instance_id, "the supervisor shut down")
        await self._parts.pools.close()
        await self._parts.tasks.finish(self._parts.config.deadline.release_s)
        await self._parts.tasks.cancel()
        if self._began_life:
            self._parts.journal.settle()
            await self._parts.store.end_life(self._parts.name)

    def _table_of_verbs(self) -> Mapping[Op, Verb]:
        parts, recovery = self._parts, self._recovery
        executor = ExclusiveExecutor(
            parts.table, parts.journal, parts.store, parts.clock, parts.tasks, recovery
        )
        operations = InstanceOperations(
            parts.config.deadline, parts.clock, parts.journal, parts.endings, recovery
        )
        forks = Forks(parts, recovery, self._creation)
        inspection = Inspection(parts)

        def exclusive(operation: Operation) -> Verb:
            return lambda frame: executor.run_exclusive(frame, operation)

        return MappingProxyType(
            {
                Op.CREATE: self._creation.create,
                Op.STEP: exclusive(operations.step),
                Op.EVALUATE: exclusive(operations.evaluate),
                Op.RELEASE: Releases(parts, recovery).release,
                Op.FORK: exclusive(forks.fork),
                Op.FILE_READ: exclusive(operations.read_files),
                Op.FILE_LIST: exclusive(operations.read_files),
                Op.FILE_WRITE: exclusive(operations.write_file),
                Op.INSTANCES: inspection.instances,
                Op.TRAJECTORY: inspection.trajectory,
                Op.STATS: self._stats,
                Op.PING: self._ping,
                Op.DRAIN: self._drain,
            }
        )

    async def _stats(self, frame: Frame) -> Frame:
        return frame.reply(self.stats().model_dump_json().encode())

    async def _ping(self, frame: Frame) -> Frame:
        return frame.reply()

    async def _drain(self, frame: Frame) -> Frame:
        await self.drain()
        return frame.reply(self.stats().model_dump_json().encode())


def _put_together(
    name: str,
    config: ServiceConfig,
    registry: Registry,
    factory: SandboxFactory,
    store: TrajectoryStore,
    clock: Clock,
) -> Parts:
    tasks = BackgroundTasks(f"supervisor {name}")
    answers = AnswerMemory(config.store.answers_mib * 1024 * 1024)
    table = InstanceTable(config.lease, clock, answers)
    journal = Journal(store, clock)
    endings = Endings(table, journal, config.deadline, tasks)
    pools = Pools(config, registry, factory, clock, endings.state_lost)
    return Parts(name, config, registry, store, clock, tasks, answers, table, journal, pools, endings)
