"""A node that gets SIGTERM under ``sandbox-service node`` is emptied before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.supervisor_core import core_builder
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.trajectories.store import open_store
from sandbox_service.wire.frames import Op
from tests.harness.fleet_load import STEPS, FleetLoad
from tests.harness.ray_nodes import ray_nodes
from tests.harness.waiting import until, until_answered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="a host name of its own needs root"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

PLAYERS = 6
LEASE_S = 600
"""Longer than the test: what goes on elsewhere was given up, and not inherited from the dead."""
HOST = "worker-that-ends"


@contextlib.contextmanager
def node(address: str, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A node with a host name of its own, run by the command."""
    service = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]
    start = [str(Path(sys.executable).with_name("ray")), "start", f"--address={address}", "--block"]
    start += ["--num-cpus=1", "--object-store-memory=83886080", "--disable-usage-stats"]
    inner = [*service, "node", "--config", str(config), "--", *start]
    script = f'hostname {HOST} && exec "$@"'
    command = ["unshare", "--uts", "sh", "-c", script, "sh", *inner]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


async def test_a_node_that_gets_sigterm_loses_no_deterministic_episode_and_ends_all_others(
    url: str, tmp_path: Path
) -> None:
    with ray_nodes(2) as cluster:
        tree = {
            "sandbox": {"kind": "process", "state_dir": str(tmp_path / "state")},
            "store": {"url": url, "lease_s": LEASE_S},
            "pool": {"min_boxes": 0, "max_boxes": 4},
            "environments": {"enabled": ["code", "echo"]},
            "fleet": {"name": "stopped-nodes", "address": cluster.address},
            "deadline": {"node_drain_s": 2},
        }
        config = ServiceConfig.model_validate(tree)
        file = tmp_path / "service.toml"
        file.write_text(_toml(tree))
        roster = Roster("stopped-nodes", core_builder(config), tcp=True)
        discovery = RayDiscovery(roster)
        router = Router(discovery)
        try:
            with node(cluster.address, file) as process:
                await until_answered(discovery.refresh, lambda members: len(members) == 3, 180)
                addresses = [await handle.address.remote() for handle in roster.find().values()]
                hosts = roster.nodes()
                (ending,) = [each for each in addresses if hosts[each.node_id] == HOST]
                await _stopped_under_load(router, process, ending.name, config)
        finally:
            await router.close()
            await asyncio.to_thread(roster.end_all, roster.find().values(), 30)


async def _stopped_under_load(
    router: Router, process: subprocess.Popen[bytes], ending: str, config: ServiceConfig
) -> None:
    load = FleetLoad(router, pause_s=0.2)
    players = [asyncio.create_task(load.play(player)) for player in range(PLAYERS)]
    created = [await load.create("code", "algorithms_chunks", f"c{number}") for number in range(3)]
    (bound, *_) = [each for each in created if each.startswith(f"{ending}.")]
    await until(lambda: load.owned_by(ending))
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 120) == 0
    began = time.monotonic()
    with pytest.raises(ServiceError) as caught:
        await load.call(Op.EVALUATE, bound)
    assert caught.value.code is ErrorCode.INSTANCE_LOST
    print(f"instance_lost after {time.monotonic() - began:.1f} s")  # noqa: T201
    done = len(load.finished)
    await until(lambda: len(load.finished) > done + 2 * PLAYERS)
    load.stopping = True
    await asyncio.gather(*players)
    assert load.lost == {}
    store = open_store(config.store)
    for instance in load.finished:
        steps = [event for event in await store.events(instance) if event.kind.value == "step"]
        assert len(steps) == STEPS, "each step was executed once"
    await store.close()


def _toml(tree: dict[str, dict[str, object]]) -> str:
    lines = []
    for branch, fields in tree.items():
        lines += [f"[{branch}]", *(f"{name} = {value!r}" for name, value in fields.items())]
    return "\n".join(lines)
