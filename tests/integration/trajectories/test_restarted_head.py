"""The head of a Ray cluster ends and starts again with what Redis kept of its state: episodes go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tests.harness.counted_steps import Toll, counted_load
from tests.harness.deployed_cluster import RESOURCE, ClusterNode, DeployedCluster, answer, deployed_cluster
from tests.harness.redis_server import RedisServer, redis_server
from tests.harness.sampling import where_changed
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="host names of their own need root"),
]

CLIENTS = 4
STEPS = 25
THINKS_S = 0.2
"""The clients must play all the time, and leave CPU time to the nodes that start meanwhile."""
LEASE_S = 5
LIMIT_S = 120.0
SCALER_METRIC = "sandbox_fleet_nodes_wanted"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def cluster() -> Iterator[DeployedCluster]:
    with deployed_cluster() as nodes:
        yield nodes


@where_changed("clusters")
async def test_no_step_waits_for_a_control_plane_that_restarts(
    url: str, redis: RedisServer, cluster: DeployedCluster
) -> None:
    head = cluster.start_head(redis, sandboxes=False)
    worker = await _served(cluster, url, 1, {"enabled": True, "max_nodes": 1})
    async with _load(cluster.url) as toll, _watched(cluster.url) as seen:
        await _played(toll)
        await asyncio.to_thread(head.kill_control_plane)
        ended = len(seen)
        await _played(toll)
        # The first one may have been under way to the head's front.
        assert set(seen[ended + 1 :]) == {200}, "the other node's front stays ready"
        await asyncio.to_thread(cluster.start_head, redis, sandboxes=False)
        await asyncio.to_thread(cluster.wait_running)
        # The scaler was on the head, and is on the new one.
        await asyncio.to_thread(cluster.wait_metric, SCALER_METRIC)
        await _played(toll)
        # The new control plane knows the supervisor of the former one: it starts it again.
        await asyncio.to_thread(worker.kill_supervisor)
        await _played(toll)
    _assert_nothing_lost(toll)


@where_changed("clusters")
async def test_episodes_of_a_head_that_dies_go_on_at_another_node_before_it_is_back(
    url: str, redis: RedisServer, cluster: DeployedCluster
) -> None:
    head = cluster.start_head(redis, sandboxes=True)
    await _served(cluster, url, 2, {})
    async with _load(cluster.url) as toll, _watched(cluster.url) as seen:
        await _played(toll)
        await asyncio.to_thread(head.kill)
        # Each client finishes the episode that it played, wherever that was, and begins others.
        await _played(toll)
        assert seen[-1] == 200
        await asyncio.to_thread(cluster.start_head, redis, sandboxes=True)
        await asyncio.to_thread(cluster.wait_running)
        await asyncio.to_thread(cluster.wait_ready, 2)
        await _played(toll)
    _assert_nothing_lost(toll)


async def _served(
    cluster: DeployedCluster, url: str, supervisors: int, scaling: dict[str, object]
) -> ClusterNode:
    """Add a node to the head, and deploy the service with so many supervisors; return the node."""
    # Longer than a head takes to start on a busy machine: Ray ends a node that misses it for a minute.
    worker = cluster.add_node("worker", RAY_gcs_rpc_server_reconnect_timeout_s="600")
    cluster.deploy(
        {
            "fleet": {"node_resource": RESOURCE, "name": "restarted-head", "scaling": scaling},
            "server": {"replicas": supervisors},
            "sandbox": {"kind": "process"},
            "store": {"url": url, "lease_s": LEASE_S},
            "pool": {"min_boxes": 0, "max_boxes": 2},
            "environments": {"enabled": ["echo"]},
        }
    )
    cluster.wait_ready(supervisors)
    return worker


def _load(url: str) -> AbstractAsyncContextManager[Toll]:
    return counted_load(url, CLIENTS, STEPS, thinks_s=THINKS_S)


async def _played(toll: Toll) -> None:
    """Wait until each client has finished an episode and another one that it began since."""
    before = toll.episodes
    await until(lambda: toll.episodes >= before + 3 * CLIENTS, LIMIT_S)


@asynccontextmanager
async def _watched(url: str) -> AsyncIterator[list[int | str]]:
    """Ask for the readiness all the time, as a load balancer does; yield the answers so far."""
    seen: list[int | str] = []

    async def watch() -> None:
        while True:
            seen.append(await asyncio.to_thread(answer, f"{url}/readyz"))
            await asyncio.sleep(0.2)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def _assert_nothing_lost(toll: Toll) -> None:
    assert toll.told == {}, "no episode ended with an error"
    assert (toll.lost, toll.silent_gaps, toll.double_executions) == (0, 0, 0)
    print(toll)  # noqa: T201
