"""Measure one, two and three nodes: instances held, episodes per second, CPU, and the loss of a node.

Each node is a raylet on this machine with its supervisor and process boxes, bounded as ``BOXES`` and
``PER_BOX`` say, so that the instances held show what a node adds. Episodes per second share this machine's
cores between all nodes and the players, and show what a further node costs. The gateway is the router of one
replica, in the players' process; the store is the PostgreSQL database that ``SANDBOX_TEST_POSTGRES_URL``
names, which the measurement fills.

    python -m tests.benchmarks.nodes -o nodes.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from deploy.supervisor_core import core_builder
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.wire.frames import Op
from service_cli.bench.machine import describe_machine
from tests.harness.fleet_load import FleetLoad, seconds_until_next
from tests.harness.ray_nodes import ray_nodes

BOXES = 4
PER_BOX = 8
PLAYERS = 16
SECONDS = 15.0


class Fleet:
    """The nodes of one measurement, and a gateway's way to them."""

    def __init__(self, cluster: object, roster: Roster, router: Router, pids: dict[str, int]) -> None:
        self.cluster = cluster
        self.roster = roster
        self.router = router
        self.pids = pids
        """Processes of the supervisors, by name."""

    def cpu_s(self) -> float:
        """Return the CPU seconds of the supervisors and their boxes so far."""
        return sum(_cpu_s(pid) for pid in self.pids.values())


@asynccontextmanager
async def fleet_of(count: int, url: str) -> AsyncIterator[Fleet]:
    """A fleet of so many nodes."""
    with tempfile.TemporaryDirectory(prefix="nodes-") as folder, ray_nodes(count) as cluster:
        config = ServiceConfig.model_validate(
            {
                "sandbox": {"kind": "process", "state_dir": folder, "process_instances_per_box": PER_BOX},
                "store": {"url": url},
                "pool": {"min_boxes": 0, "max_boxes": BOXES, "queue_timeout_s": 20},
                "environments": {"enabled": ("code", "echo")},
            }
        )
        roster = Roster(f"bench-{count}-{os.getpid()}", core_builder(config), tcp=True)
        discovery = RayDiscovery(roster)
        router = Router(discovery)
        try:
            async with asyncio.timeout(180):
                while len(await discovery.refresh()) < count:
                    pass
            addresses = [await handle.address.remote() for handle in roster.find().values()]
            yield Fleet(cluster, roster, router, {each.name: each.pid for each in addresses})
        finally:
            await router.close()
            await asyncio.to_thread(roster.end_all, roster.find().values(), 60)


async def held(fleet: Fleet) -> int:
    """Create instances of code until no node takes another; return their number, and release them."""
    load = FleetLoad(fleet.router)
    instances: list[str] = []
    full = (ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_TIMEOUT)

    async def fill() -> None:
        body = {"environment": "code", "task_id": "algorithms_chunks"}
        while True:
            try:
                instances.append((await load.call(Op.CREATE, "", body))["instance_id"])
            except ServiceError as error:
                if error.code not in full:
                    raise
                return

    await asyncio.gather(*(fill() for _ in range(4)))
    for instance in instances:
        await load.call(Op.RELEASE, instance)
    return len(instances)


async def played(fleet: Fleet) -> dict[str, float]:
    """Play episodes of echo without a pause; return episodes per second and CPU seconds for each."""
    load = FleetLoad(fleet.router, f"{fleet.roster.fleet}-played")
    began, own, theirs = time.monotonic(), time.process_time(), fleet.cpu_s()
    players = [asyncio.create_task(load.play(player)) for player in range(PLAYERS)]
    await asyncio.sleep(SECONDS)
    load.stopping = True
    await asyncio.gather(*players)
    count, seconds = len(load.finished), time.monotonic() - began
    return {
        "episodes_per_s": round(count / seconds, 1),
        "lost": len(load.lost),
        "supervisor_cpu_ms_per_episode": round(1000 * (fleet.cpu_s() - theirs) / count, 1),
        "gateway_and_players_cpu_ms_per_episode": round(1000 * (time.process_time() - own) / count, 1),
    }


async def killed(fleet: Fleet) -> dict[str, object]:
    """Kill a node under load; return what became of its instances, and when they went on."""
    load = FleetLoad(fleet.router, f"{fleet.roster.fleet}-killed", pause_s=0.2)
    nodes = [node for node in fleet.cluster.list_all_nodes() if not node.head]  # type: ignore[attr-defined]
    placed = {(await handle.address.remote()).node_id: name for name, handle in fleet.roster.find().items()}
    node = nodes[0]
    victim = placed[node.node_id]
    players = [asyncio.create_task(load.play(player)) for player in range(PLAYERS)]
    await asyncio.sleep(3.0)
    hit = {instance: load.answered[instance] for instance in load.owned_by(victim)}
    began = time.monotonic()
    os.kill(fleet.pids[victim], signal.SIGKILL)
    await asyncio.to_thread(fleet.cluster.remove_node, node, allow_graceful=False)  # type: ignore[attr-defined]
    await asyncio.sleep(25.0)
    load.stopping = True
    await asyncio.gather(*players)
    waits = seconds_until_next(hit, began)
    stuck = [each for each, wait in waits.items() if wait is None and each not in load.finished]
    known = sorted(wait for wait in waits.values() if wait is not None)
    return {
        "episodes_hit": len(hit),
        "episodes_lost": len(load.lost),
        "episodes_finished": len(load.finished),
        "episodes_that_never_went_on": len(stuck),
        "seconds_until_they_went_on": [round(known[0], 1), round(known[-1], 1)] if known else [],
    }


async def measure(counts: Sequence[int], url: str) -> dict[str, object]:
    """Measure fleets of so many nodes, and the loss of one of the last."""
    results: dict[str, object] = {"machine": describe_machine(), "boxes": BOXES, "instances_per_box": PER_BOX}
    for count in counts:
        async with fleet_of(count, url) as fleet:
            row: dict[str, object] = {"instances_held": await held(fleet), **await played(fleet)}
            if count == max(counts) > 1:
                row["node_killed"] = await killed(fleet)
            results[f"{count} nodes"] = row
            print(count, row)  # noqa: T201
    return results


def _cpu_s(pid: int) -> float:
    try:
        process = psutil.Process(pid)
        return sum(sum(each.cpu_times()[:2]) for each in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    chosen = parser.parse_args()
    results = asyncio.run(measure(chosen.nodes, os.environ["SANDBOX_TEST_POSTGRES_URL"]))
    chosen.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
