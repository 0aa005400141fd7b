"""The maintenance expires leases by itself, and one failure does not keep it from the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_service.config import LeaseConfig
from sandbox_service.supervisor.background import BackgroundTasks
from sandbox_service.supervisor.handover import Handover
from sandbox_service.supervisor.idempotency import AnswerCache
from sandbox_service.supervisor.instances import InstanceTable
from sandbox_service.supervisor.journal import Journal
from sandbox_service.supervisor.maintenance import Maintenance
from sandbox_service.supervisor.pools import Pools
from sandbox_service.supervisor.termination import Termination
from sandbox_service.trajectories.records import EventKind
from tests.fakes.clock import FakeClock
from tests.fakes.environments import fake_registry
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import fake_config, supervised

if TYPE_CHECKING:
    from sandbox_service.supervisor.instances import Instance
    from sandbox_service.trajectories.records import EventRecord


class _FailingTermination(Termination):
    """Fails to expire one instance."""

    broken = ""

    def expire(self, instance: Instance) -> None:
        if instance.instance_id == self.broken:
            raise RuntimeError("a bug")
        super().expire(instance)


async def test_one_expiry_that_fails_keeps_no_other_instance() -> None:
    config, clock, registry = fake_config(), FakeClock(), fake_registry()
    table = InstanceTable("s1", config.lease, clock, AnswerCache(0))
    journal = Journal("s1", MemoryTrajectoryStore(), clock)
    termination = _FailingTermination(
        table=table, journal=journal, deadlines=config.deadline, tasks=BackgroundTasks("test")
    )
    pools = Pools(config, registry, FakeSandboxFactory(), clock, termination.handle_state_loss)
    handover = Handover(
        name="s1",
        table=table,
        journal=journal,
        store=MemoryTrajectoryStore(),
        termination=termination,
        tasks=BackgroundTasks("test"),
    )
    maintenance = Maintenance(
        table=table,
        journal=journal,
        termination=termination,
        handover=handover,
        pools=pools,
        clock=clock,
        interval_s=3600,
    )
    for instance_id in ("broken", "fine"):
        table.activate(table.reserve(instance_id, "ada", "echo-10", registry.catalog("echo")))
    termination.broken = "broken"
    clock.advance(300)
    maintenance.tick()
    assert [each.instance_id for each in table.live()] == ["broken"]


class _NotingStore(MemoryTrajectoryStore):
    """Says when an instance has expired."""

    def __init__(self) -> None:
        super().__init__()
        self.expired = asyncio.Event()

    def append(self, event: EventRecord) -> None:
        super().append(event)
        if event.kind is EventKind.EXPIRE:
            self.expired.set()


async def test_the_maintenance_runs_by_itself() -> None:
    store = _NotingStore()
    async with supervised(store=store, lease=LeaseConfig(sweep_interval_s=0.001)) as service:
        instance = await service.create()
        service.clock.advance(300)
        await store.expired.wait()
        assert await service.states() == {instance: "expired"}
