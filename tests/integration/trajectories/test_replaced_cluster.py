"""A Ray cluster that ends after another one on the same database has taken its place, as in an upgrade."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor_core import core_builder
from local_processes.ports import free_port
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.members import Member
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.stream.address import TcpAddress
from sandbox_service.trajectories.store import open_store
from sandbox_service.wire.frames import Op
from tests.harness.fleet_load import STEPS, FleetLoad
from tests.harness.ray_nodes import ray_nodes
from tests.harness.sampling import where_changed
from tests.harness.town import KnownMembers
from tests.harness.waiting import until, until_answered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.timeout(500),
    where_changed("replaced_cluster"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

PLAYERS = 6
ATTEMPTS = 40
LEASE_S = 600
"""Longer than the test: what goes on in the new cluster was given up by the former one."""
SERVICE = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]
SUPERVISOR = """
import json, sys, time
from pathlib import Path
import ray
from deploy.supervisor_core import core_builder
from sandbox_service.config.reading import read_config
from sandbox_service.fleet.roster import Roster
config = read_config(Path(sys.argv[1]), [])
ray.init(address=config.fleet.address, log_to_driver=False, configure_logging=False)
roster = Roster(config.fleet.name, core_builder(config), tcp=True)
roster.start_missing((), {})
while (address := ray.get(next(iter(roster.find().values())).address.remote())) is None:
    time.sleep(0.2)
print(json.dumps([address.name, address.host, address.port, address.secret]))
"""
"""Starts the supervisor of a cluster, and prints how it is reached: one process has one cluster of Ray."""


@contextlib.contextmanager
def former_cluster(config: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A cluster of one node that `sandbox-service node` runs."""
    with tempfile.TemporaryDirectory(prefix="ra-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", f"--port={port}", "--block"]
        ray += ["--num-cpus=1", "--object-store-memory=83886080", "--include-dashboard=false"]
        ray += ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--disable-usage-stats"]
        command = [*SERVICE, "node", "--config", str(config), "--", *ray]
        environment = {**os.environ, "RAY_TMPDIR": folder}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.terminate()


def start_supervisor(config: Path) -> Member:
    """Start the former cluster's supervisor, again while its Ray is not there yet."""
    command = [sys.executable, "-c", SUPERVISOR, str(config)]
    errors = ""
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            name, host, port, secret = json.loads(done.stdout.splitlines()[-1])
            return Member(name, TcpAddress(host, port), secret)
        errors = done.stderr
    raise AssertionError(errors)


def tree_of(url: str, folder: Path, name: str, address: str) -> dict[str, dict[str, Any]]:
    return {
        "sandbox": {"kind": "process", "state_dir": str(folder / name)},
        "store": {"url": url, "lease_s": LEASE_S},
        "pool": {"min_boxes": 0, "max_boxes": 4},
        "environments": {"enabled": ["code", "echo"]},
        "fleet": {"name": name, "address": address},
        "deadline": {"node_drain_s": 300},
    }


def write_toml(tree: dict[str, dict[str, Any]], file: Path) -> Path:
    lines: list[str] = []
    for branch, fields in tree.items():
        lines += [f"[{branch}]", *(f"{name} = {value!r}" for name, value in fields.items())]
    file.write_text("\n".join(lines))
    return file


async def test_a_replaced_cluster_loses_no_deterministic_episode_and_ends_all_others(
    url: str, tmp_path: Path
) -> None:
    with ray_nodes(1) as cluster:
        port = free_port()
        file = write_toml(tree_of(url, tmp_path, "former", f"127.0.0.1:{port}"), tmp_path / "former.toml")
        config = ServiceConfig.model_validate(tree_of(url, tmp_path, "next", cluster.address))
        roster = Roster("next", core_builder(config), tcp=True)
        discovery = RayDiscovery(roster)
        router = Router(discovery)
        try:
            with former_cluster(file, port) as process:
                former = await asyncio.to_thread(start_supervisor, file)
                await until_answered(discovery.refresh, bool)
                load = FleetLoad(Router(KnownMembers({former.name: former})), pause_s=0.2)
                await _replaced_under_load(load, router, process, former.name, config)
        finally:
            await router.close()
            await asyncio.to_thread(roster.end_all, roster.find().values(), 30)


async def _replaced_under_load(
    load: FleetLoad, router: Router, process: subprocess.Popen[bytes], former: str, config: ServiceConfig
) -> None:
    before = load.router
    players = [asyncio.create_task(load.play(player)) for player in range(PLAYERS)]
    bound = await load.create("code", "algorithms_chunks", "bound")
    await until(lambda: len(load.owned_by(former)) == PLAYERS)
    # What KubeRay does: clients reach the new cluster, then the former one gets the signal.
    load.router = router
    moved = load.owned_by(former)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    with pytest.raises(ServiceError) as caught:
        await load.call(Op.EVALUATE, bound)
    assert caught.value.code is ErrorCode.INSTANCE_LOST
    print(f"instance_lost {time.monotonic() - began:.1f} s after SIGTERM")  # noqa: T201
    assert await asyncio.to_thread(process.wait, 120) == 0
    print(f"the former cluster ended {time.monotonic() - began:.1f} s after SIGTERM")  # noqa: T201
    await until(lambda: len(load.finished) > len(moved) + PLAYERS)
    load.stopping = True
    await asyncio.gather(*players)
    await before.close()
    assert load.lost == {}
    store = open_store(config.store)
    for instance in load.finished:
        steps = [event for event in await store.events(instance) if event.kind.value == "step"]
        assert len(steps) == STEPS, "each step was executed once"
    await store.close()
    print(f"{len(load.finished)} episodes, {len(moved)} of them moved")  # noqa: T201
