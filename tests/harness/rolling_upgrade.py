"""Replace the nodes and the gateways of a deployed service under load, as docs/operations.md says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from .counted_steps import Toll
from .deployed_cluster import RESOURCE, ClusterNode, DeployedCluster
from .waiting import until

LIMIT_S = 180.0
UNDISTURBED = "undisturbed"
LOST = ("episodes_lost", "steps_lost", "steps_executed_twice")
"""Figures of which each has to be 0."""
Figures = dict[str, dict[str, float]]


def settings_of(cluster: DeployedCluster, url: str) -> dict[str, Any]:
    """Return settings of a service with a supervisor and a replica of the gateway on each of two nodes."""
    return {
        "fleet": {"node_resource": RESOURCE, "name": "rolled", "address": cluster.address},
        "server": {"replicas": 2, "port": cluster.port},
        "sandbox": {"kind": "process"},
        # Longer than an upgrade: what goes on elsewhere was given up, and not inherited from the dead.
        "store": {"url": url, "lease_s": 600},
        "pool": {"min_boxes": 0, "max_boxes": 2},
        "environments": {"enabled": ["echo"]},
        "deadline": {"node_drain_s": 20},
    }


def start_two_nodes(cluster: DeployedCluster, settings: dict[str, Any]) -> ClusterNode:
    """Start the head and another node, both with sandboxes, and deploy the service; return the node."""
    file = cluster.write_settings(settings)
    cluster.start_head(sandboxes=True)
    node = cluster.add_node("worker-1", file)
    cluster.deploy(settings)
    cluster.wait_ready(2)
    return node


async def roll(
    cluster: DeployedCluster, node: ClusterNode, settings: dict[str, Any], toll: Toll, undisturbed_s: float
) -> Figures:
    """Replace one node after the other, then deploy changed settings; return the figures of each part.

    The node ends and another machine takes its place; the head keeps its machine and gets a new supervisor.
    """
    figures: Figures = {}
    async with measured(UNDISTURBED, toll, figures):
        await asyncio.sleep(undisturbed_s)
        await some_more(toll)  # the first ones wait for boxes
    async with measured("node replaced", toll, figures):
        assert await asyncio.to_thread(node.stop) == 0
        await asyncio.to_thread(cluster.add_node, "worker-2", cluster.write_settings(settings))
        await asyncio.to_thread(cluster.wait_ready, 2)
    async with measured("supervisor of the head replaced", toll, figures):
        words = ("drain", "head", "--replace", "--timeout", "20")
        await asyncio.to_thread(cluster.operate, *words, "--config", str(cluster.write_settings(settings)))
        await asyncio.to_thread(cluster.wait_ready, 2)
    async with measured("gateways replaced", toll, figures):
        changed = deepcopy(settings)
        changed["quota"] = {"requests_at_once": 4}
        former = await asyncio.to_thread(cluster.gateways)
        assert former, "replicas run"
        await asyncio.to_thread(cluster.deploy, changed)
        await asyncio.to_thread(cluster.wait_replaced, former)
        await asyncio.to_thread(cluster.wait_running)
        await some_more(toll)
    return figures


async def some_more(toll: Toll) -> None:
    """Wait until a few more episodes have ended."""
    before = toll.episodes
    await until(lambda: toll.episodes > before + 4, LIMIT_S)


@asynccontextmanager
async def measured(part: str, toll: Toll, figures: Figures) -> AsyncIterator[None]:
    """Note the episodes and steps that ended while the block ran, and the longest wait for a call of them."""
    began, episodes, steps = time.monotonic(), toll.episodes, toll.acknowledged
    toll.longest_s = 0.0
    yield
    figures[part] = {
        "seconds": round(time.monotonic() - began, 1),
        "episodes": toll.episodes - episodes,
        "steps": toll.acknowledged - steps,
        "longest_wait_s": round(toll.longest_s, 2),
    }


def losses(toll: Toll) -> dict[str, int]:
    """Return what clients have played and lost."""
    return {
        "episodes": toll.episodes,
        "steps": toll.acknowledged,
        "calls_repeated": toll.repeated,
        "episodes_lost": sum(toll.told.values()),
        "steps_lost": toll.lost,
        "steps_executed_twice": toll.double_executions,
    }
