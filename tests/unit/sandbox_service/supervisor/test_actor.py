"""A supervisor's process starts its core again, also when the former one cannot be closed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.supervisor import actor as actor_module
from sandbox_service.supervisor.actor import SupervisorActor
from sandbox_service.supervisor.options import SupervisorOptions
from sandbox_service.wire.frames import Frame
from tests.harness.waiting import until


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


class Cores:
    """Builds the cores of one supervisor, of which the first ``broken`` do not start."""

    def __init__(self, broken: int) -> None:
        self._broken = broken
        self.built: list[UnwritableCore] = []

    def __call__(self, _: SupervisorOptions) -> UnwritableCore:
        self.built.append(UnwritableCore(broken=len(self.built) < self._broken))
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
