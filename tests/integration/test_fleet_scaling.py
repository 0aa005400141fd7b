"""Ray's own autoscaler adds a node when instances queue for boxes, and removes it when they have ended."""

from __future__ import annotations

import asyncio
import json

import pytest
import ray

from deploy.supervisor_core import core_builder
from sandbox_contract.problems import ErrorCode
from sandbox_service.config import ServiceConfig
from sandbox_service.errors import ServiceError
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.placement import creator_of
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.fleet.scaler import end_scaler
from sandbox_service.fleet.scaling import ScalingPolicy
from sandbox_service.wire.frames import Op
from tests.harness.autoscaled_nodes import autoscaled_nodes
from tests.harness.sampling import sampled, where_changed
from tests.harness.waiting import until_answered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    where_changed("scaling"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]

RESOURCE = "sandbox_node"
NODE = {"CPU": 1, RESOURCE: 1, "object_store_memory": 80 * 1024 * 1024}
BOXES = 2
POLICY = ScalingPolicy(min_nodes=1, max_nodes=2, target_use=1.0, idle_s=20.0, interval_s=0.5)
LIMIT_S = 600.0


def config_of(folder: object) -> ServiceConfig:
    """A service whose nodes hold two instances each."""
    return ServiceConfig.model_validate(
        {
            "sandbox": {"kind": "process", "state_dir": folder, "process_instances_per_box": 1},
            "store": {"url": f"sqlite:///{folder}/t.sqlite"},
            "pool": {"min_boxes": 0, "max_boxes": BOXES, "queue_timeout_s": 5},
            "deadline": {"start_s": LIMIT_S, "create_s": LIMIT_S},
            "environments": {"enabled": ("code",)},
        }
    )


async def create(router: Router) -> str:
    """Create an instance as a client does: again while all boxes are in use."""
    body = json.dumps({"environment": "code", "task_id": "algorithms_chunks"}).encode()
    while True:
        try:
            reply = await router.call(
                Op.CREATE, tenant="t", instance_id="", meta={"request_id": "r"}, body=body, timeout_s=LIMIT_S
            )
        except ServiceError as error:
            if error.code is not ErrorCode.QUEUE_TIMEOUT:
                raise
        else:
            return str(json.loads(reply.body)["instance_id"])


async def release(router: Router, instance: str) -> None:
    body = json.dumps({"instance_id": instance}).encode()
    await router.call(
        Op.RELEASE, tenant="t", instance_id=instance, meta={"request_id": "r"}, body=body, timeout_s=LIMIT_S
    )


def sandbox_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if node["Alive"] and RESOURCE in node["Resources"]}


async def wait_for_nodes(discovery: RayDiscovery, count: int) -> None:
    """Wait until Ray has so many sandbox nodes, each with a supervisor."""
    await until_answered(
        discovery.refresh, lambda members: len(members) == len(sandbox_nodes()) == count, LIMIT_S
    )


@pytest.fixture(params=sampled("scaling", [1, 2], [2]), ids="autoscaler v{}".format)
def cluster(request, tmp_path):
    with autoscaled_nodes(NODE, most=3, idle_s=3.0, version=request.param):
        yield


async def test_nodes_come_and_go_with_the_demand_for_instances(cluster, tmp_path):
    builder = core_builder(config_of(tmp_path))
    roster = Roster("fleet-scaled", builder, tcp=True, node_resource=RESOURCE, scaling=POLICY)
    discovery = RayDiscovery(roster)
    router = Router(discovery)
    try:
        await wait_for_nodes(discovery, 1)
        held = [await create(router) for _ in range(BOXES)]
        first = creator_of(held[0])
        assert {creator_of(instance) for instance in held} == {first}

        async with asyncio.timeout(LIMIT_S):
            held.append(await create(router))
        assert creator_of(held[-1]) != first
        await wait_for_nodes(discovery, 2)
        assert discovery.scale is not None
        assert discovery.scale.wanted == 2

        for instance in held:
            await release(router, instance)
        await wait_for_nodes(discovery, 1)
        assert discovery.scale.wanted == 1
        await release(router, await create(router))
    finally:
        await router.close()
        end_scaler(roster, 30)
        roster.end_all(roster.find().values(), 60)
