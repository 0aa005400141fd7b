"""A destruction goes on when its caller has given it up, and its factory keeps the engine for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig, PoolConfig
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.errors import ServiceError
from sandbox_service.pool.policy import NodeSize
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.container import ContainerFactory
from sandbox_service.sandboxes.destructions import Destructions
from sandbox_service.sandboxes.docker import EngineInfo
from sandbox_service.sandboxes.state import SOCKET_NAME, StateDir
from sandbox_service.supervisor.box_pool import BoxPool
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngine
from tests.fakes.listening_runner import ListeningRunner
from tests.harness.waiting import until

FACTS = EngineInfo("28.0.0", "1.3.3", frozenset({"runc"}), rootless=False, remapped_root=None)


class RestartingEngine(FakeEngine):
    """Runs a container with or without a runner, and removes none for its first ``away`` tries."""

    def __init__(self, *, away: int, runs: bool = True) -> None:
        super().__init__()
        self.runs = runs
        self.remove_errors = [ServiceError(ErrorCode.SANDBOX_FAILED, "connection refused")] * away
        self.away = away

    async def run(self, name: str, config: Any, timeout_s: float) -> None:
        await super().run(name, config, timeout_s)
        if self.runs:
            self.runner = ListeningRunner()
            await self.runner.listen(f"{config['HostConfig']['Mounts'][0]['Source']}/{SOCKET_NAME}")


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateDir]:
    opened = StateDir.open(tmp_path_factory.mktemp("s"), "n1")
    yield opened
    opened.close()


def _pool(factory: ContainerFactory, start_s: float) -> BoxPool:
    return BoxPool(
        EchoCatalog.spec,
        PoolConfig(min_boxes=1, max_boxes=1),
        DeadlineConfig(start_s=start_s, release_s=0.05),
        factory,
        FakeClock(),
        lambda *_: None,
        NodeSize(cores=2, memory_mib=8192),
    )


async def test_a_box_that_its_pool_gives_up_is_removed_before_the_engine_is_closed(state: StateDir) -> None:
    engine = RestartingEngine(away=3)
    factory = ContainerFactory(engine, FACTS, state, "n1", SandboxLimits())
    pool = _pool(factory, start_s=60.0)
    pool.decide()
    await until(lambda: pool.stats().idle)
    await pool.close()
    assert engine.running
    await factory.close()
    assert engine.running == {}
    assert engine.closed
    engine.runner.die()


async def test_the_box_of_a_start_that_is_interrupted_twice_is_removed(state: StateDir) -> None:
    engine = RestartingEngine(away=4, runs=False)
    factory = ContainerFactory(engine, FACTS, state, "n1", SandboxLimits())
    pool = _pool(factory, start_s=0.1)
    pool.decide()
    await until(lambda: len(engine.remove_errors) < engine.away)
    await pool.close()
    assert engine.running
    await factory.close()
    assert engine.running == {}


async def test_the_end_waits_for_a_destruction_no_longer_than_it_may_take() -> None:
    destructions = Destructions(longest_s=0.05)
    stuck = destructions.begin_destruction("box", _without_end())
    async with asyncio.timeout(60):
        await destructions.finish_destructions()
    assert not stuck.done()
    stuck.cancel()


async def test_a_destruction_that_fails_does_not_keep_the_others() -> None:
    destructions = Destructions()
    removed: list[str] = []

    async def fail() -> None:
        raise OSError("no")

    async def remove() -> None:
        await asyncio.sleep(0)
        removed.append("box")

    destructions.begin_destruction("broken", fail())
    destructions.begin_destruction("box", remove())
    await destructions.finish_destructions()
    assert removed == ["box"]


async def test_a_destruction_that_fails_is_logged_once_and_its_pool_goes_on(
    state: StateDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = RestartingEngine(away=0)
    factory = ContainerFactory(engine, FACTS, state, "n1", SandboxLimits())
    pool = _pool(factory, start_s=60.0)
    pool.decide()
    await until(lambda: pool.stats().idle)

    async def fail(name: str, timeout_s: float) -> None:
        raise OSError("no")

    monkeypatch.setattr(engine, "remove", fail)
    await pool.close()
    await factory.close()
    assert pool.stats().destroyed_total == 1
    failures = [record.msg["event"] for record in caplog.records if record.levelname == "ERROR"]
    assert failures == ["box_destruction_failed"]
    engine.runner.die()


async def _without_end() -> None:
    await asyncio.Event().wait()
