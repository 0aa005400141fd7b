"""A supervisor's process starts its core again, also when the former one cannot be closed, and stops once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig
from sandbox_service.errors import ServiceError
from sandbox_service.supervisor import actor as actor_module
from sandbox_service.supervisor import core as core_module
from sandbox_service.supervisor.actor import SupervisorActor
from sandbox_service.supervisor.background import BackgroundTasks
from sandbox_service.supervisor.closing import stop_s
from sandbox_service.supervisor.options import SupervisorOptions
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, fake_config
from tests.harness.waiting import settle, until


class UnwritableCore:
    """A core whose store takes no records until it is ``writable``; one that is ``broken`` does not start."""

    def __init__(self, *, broken: bool) -> None:
        self._broken = broken
        self.fenced = asyncio.Event()
        self.closed = False
        self.writable = False

    async def start(self) -> None:
        if self._broken:
            raise ServiceError(ErrorCode.STORAGE_FULL)

    async def handle(self, frame: Frame) -> Frame:
        raise NotImplementedError

    async def drain(self) -> None: ...

    async def begin_drain(self, *, move: bool) -> None: ...

    async def cancel_drain(self) -> None: ...

    async def wait_fenced(self) -> None:
        await self.fenced.wait()

    async def close(self) -> None:
        self.closed = True
        if not self.writable:
            raise ServiceError(ErrorCode.STORAGE_FULL, "1 trajectory records could not be written")


class SlowlyClosedCore(UnwritableCore):
    """A core whose close waits until it may end."""

    def __init__(self, *, broken: bool) -> None:
        super().__init__(broken=broken)
        self.writable = True
        self.closing = asyncio.Event()
        self.may_close = asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.may_close.wait()
        await super().close()


class Cores:
    """Builds the cores of one supervisor, of which the first ``broken`` do not start."""

    def __init__(self, broken: int, kind: type[UnwritableCore] = UnwritableCore) -> None:
        self._broken = broken
        self._kind = kind
        self.built: list[UnwritableCore] = []

    def __call__(self, _: SupervisorOptions) -> UnwritableCore:
        self.built.append(self._kind(broken=len(self.built) < self._broken))
        return self.built[-1]


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have the actor run in the process of the tests, outside Ray."""
    context = SimpleNamespace(get_node_id=lambda: "node")
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    monkeypatch.setattr(actor_module, "ray", SimpleNamespace(get_runtime_context=lambda: context, util=util))
    monkeypatch.setattr(actor_module, "collect_rarely", lambda: None)
    monkeypatch.setattr(actor_module, "keep_freed_memory", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the names of the events that were logged."""
    return [record.msg["event"] for record in caplog.records if isinstance(record.msg, dict)]


async def served(actor: SupervisorActor, cores: Cores, number: int) -> None:
    """Wait until the actor serves that core."""
    while len(cores.built) < number or await actor.address() is None:  # noqa: ASYNC110 (it raises no event)
        await asyncio.sleep(0.002)


async def test_a_start_is_repeated_when_what_it_has_opened_cannot_be_closed() -> None:
    cores = Cores(broken=1)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        await served(actor, cores, 2)
    assert [core.closed for core in cores.built] == [True, False]
    cores.built[-1].writable = True
    await actor.stop()


async def test_a_fenced_supervisor_starts_again_when_it_cannot_be_closed() -> None:
    cores = Cores(broken=0)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        await served(actor, cores, 1)
        cores.built[0].fenced.set()
        await until(lambda: cores.built[0].closed)
        await served(actor, cores, 2)
    assert not cores.built[1].closed
    cores.built[-1].writable = True
    await actor.stop()


@pytest.mark.parametrize("broken", [0, 1], ids=["it is fenced", "it cannot start"])
async def test_stops_wait_for_a_close_that_is_under_way_and_do_not_cancel_it(broken: int) -> None:
    cores = Cores(broken, SlowlyClosedCore)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        if not broken:
            await served(actor, cores, 1)
        await until(lambda: cores.built)
        (core,) = cores.built
        core.fenced.set()
        await core.closing.wait()
        stops = [asyncio.create_task(actor.stop()) for _ in range(2)]
        await settle()
        assert not any(stop.done() for stop in stops)
        core.may_close.set()
        await asyncio.gather(*stops)
    assert core.closed
    assert cores.built == [core]
    address = await actor.address()
    assert broken or (address is not None and not address.serving)


async def test_a_stop_ends_after_the_close_of_a_fenced_supervisor_though_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cores = Cores(0, SlowlyClosedCore)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        await served(actor, cores, 1)
        (core,) = cores.built
        core.writable = False
        core.fenced.set()
        await core.closing.wait()
        stop = asyncio.create_task(actor.stop())
        await settle()
        core.may_close.set()
        await stop
    assert await actor.failure() == "stopped"
    address = await actor.address()
    assert address is not None
    assert not address.serving
    assert events(caplog).count("supervisor_close_failed") == 1


async def test_a_stop_whose_last_records_are_refused_says_so_and_is_a_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cores = Cores(0)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        await served(actor, cores, 1)
        for _ in range(2):
            with pytest.raises(ServiceError, match="could not be written"):
                await actor.stop()
    assert await actor.failure() == "stopped"
    address = await actor.address()
    assert address is not None
    assert not address.serving
    assert events(caplog).count("supervisor_close_failed") == 1


async def test_a_second_stop_returns_with_the_first() -> None:
    cores = Cores(0, SlowlyClosedCore)
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), cores)
    async with asyncio.timeout(120):
        await served(actor, cores, 1)
        first = asyncio.create_task(actor.stop())
        await cores.built[0].closing.wait()
        second = asyncio.create_task(actor.stop())
        await settle()
        assert not first.done()
        assert not second.done()
        cores.built[0].may_close.set()
        await asyncio.gather(first, second)
    address = await actor.address()
    assert address is not None
    assert not address.serving


async def test_boxes_are_destroyed_after_one_drain_though_an_operation_never_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: dict[BackgroundTasks, list[float]] = {}

    class RecordedTasks(BackgroundTasks):
        async def finish(self, timeout_s: float) -> bool:
            waits.setdefault(self, []).append(timeout_s)
            return await super().finish(timeout_s)

    monkeypatch.setattr(core_module, "BackgroundTasks", RecordedTasks)
    deadline = DeadlineConfig(drain_s=0.2, release_s=5)
    config, factory = fake_config(deadline=deadline), FakeSandboxFactory()
    service = Supervised(config, factory, MemoryTrajectoryStore(), FakeClock())
    actor = SupervisorActor(SupervisorOptions("s1", "fleet"), lambda _: service.core)
    async with asyncio.timeout(120):
        await until(lambda: service.core.lease.is_held())
        instance = await service.create("diary")
    factory.home_of(instance).hold(Op.STEP)
    step = asyncio.create_task(service.step(instance))
    await factory.home_of(instance).waiting.wait()
    async with asyncio.timeout(stop_s(deadline)):
        await actor.drain()
        await actor.stop()
    (of_core,) = waits.values()
    # The drain, and those of the stop and of the close, which have what is left of it.
    first, *later = of_core[:3]
    assert first <= deadline.drain_s
    assert max(later) <= 0.0
    assert factory.alive == []
    assert service.store.kinds(instance) == ["create", "lost"]
    await asyncio.wait({step})
