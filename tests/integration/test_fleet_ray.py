from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from copy import copy
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray

from deploy.fleet_access import RayFleet
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, VersionMismatchError
from sandbox_service.fleet.discovery import RayDiscovery
from sandbox_service.fleet.draining import drain_node, replace_supervisors
from sandbox_service.fleet.roster import Roster
from sandbox_service.fleet.router import Router
from sandbox_service.fleet.scaler import NAME, end_scaler
from sandbox_service.fleet.scaling import FleetScale, ScalingPolicy
from sandbox_service.supervisor.options import running_version
from sandbox_service.wire.frames import Op
from tests.fakes.supervisors import build_fake_core
from tests.harness.ray_nodes import NODE, ray_nodes
from tests.harness.waiting import until, until_answered

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    # Ray's own modules warn about event loops and subprocesses that they leave to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
]


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster of two nodes on this machine."""
    with ray_nodes(2) as cluster:
        yield cluster


async def members_of(discovery: RayDiscovery, count: int) -> dict[str, object]:
    """The fleet, once it is complete; every look asks Ray again."""
    return dict(await until_answered(discovery.refresh, lambda members: len(members) >= count, 60))


async def create(router: Router, instance_id: str = "") -> str:
    reply = await router.call(
        Op.CREATE, tenant="t", instance_id=instance_id, meta={"request_id": "r"}, body=b"{}", timeout_s=30
    )
    return json.loads(reply.body)["instance_id"]


async def create_as_a_client_does(router: Router, instance_id: str) -> str:
    """The first frame may have left before the kernel told of the death; then it is sent again."""
    try:
        return await create(router, instance_id)
    except ServiceError as error:
        if error.code is not ErrorCode.OUTCOME_UNKNOWN:
            raise
        return await create(router, instance_id)


async def step(router: Router, instance_id: str) -> bytes:
    reply = await router.call(
        Op.STEP, tenant="t", instance_id=instance_id, meta={"request_id": "r"}, body=b"act", timeout_s=30
    )
    return reply.body


async def test_a_killed_supervisor_is_restarted_under_its_name_and_found_again(two_nodes):
    roster = Roster("fleet-test", build_fake_core, tcp=True)
    discovery = RayDiscovery(roster)
    router = Router(discovery)
    try:
        members = await members_of(discovery, 2)
        assert len({member.address for member in members.values()}) == 2

        created = [await create(router) for _ in range(6)]
        assert {instance_id.split(".")[0] for instance_id in created} == set(members)
        for instance_id in created:
            assert await step(router, instance_id) == b"act"

        victim = sorted(members)[0]
        handle = roster.find()[victim]
        address = await handle.address.remote()
        os.kill(address.pid, signal.SIGKILL)

        # The new one remembers nothing, which is the core's business; that it answers is the fleet's.
        assert await create_as_a_client_does(router, f"{victim}.chosen") == f"{victim}.chosen"
        again = await handle.address.remote()
        assert again.pid != address.pid
        assert again.name == victim
        assert set(await discovery.members()) == set(members)
    finally:
        await router.close()
        assert roster.end_all(roster.find().values(), 30)


async def test_a_fleet_that_could_not_be_refreshed_is_known_still_and_refreshed_later(two_nodes, monkeypatch):
    find, looks, broken = Roster.find, itertools.count(), asyncio.Event()

    def find_or_fail(roster):
        next(looks)
        if broken.is_set():
            raise ValueError("nobody foresaw this")
        return find(roster)

    async def looked_three_times():
        seen = next(looks)
        await until(lambda: next(copy(looks)) > seen + 3)

    monkeypatch.setattr("sandbox_service.fleet.discovery.REFRESH_INTERVAL_S", 0.1)
    monkeypatch.setattr(Roster, "find", find_or_fail)
    roster = Roster("fleet-broken", build_fake_core, tcp=True)
    discovery = RayDiscovery(roster)
    try:
        members = await members_of(discovery, 2)
        assert await discovery.members() == members
        broken.set()
        assert await discovery.refresh() == members
        await looked_three_times()
        broken.clear()
        await looked_three_times()
        assert await discovery.members() == members
    finally:
        broken.clear()
        await discovery.close()
        assert roster.end_all(roster.find().values(), 30)


async def test_a_supervisor_that_is_stopped_and_not_dead_is_started_again(two_nodes):
    roster = Roster("fleet-hung", build_fake_core, tcp=True, hung_s=0.5)
    discovery = RayDiscovery(roster)
    router = Router(discovery)
    try:
        members = await members_of(discovery, 2)
        victim = sorted(members)[0]
        handle = roster.find()[victim]
        before = await handle.address.remote()
        os.kill(before.pid, signal.SIGSTOP)
        called = asyncio.create_task(create_as_a_client_does(router, f"{victim}.chosen"))
        async with asyncio.timeout(60):
            while psutil.pid_exists(before.pid):
                await discovery.refresh()
        assert await called == f"{victim}.chosen"
        assert (await handle.address.remote()).pid != before.pid
        assert discovery.view().restarted == 1
    finally:
        await router.close()
        assert roster.end_all(roster.find().values(), 30)


async def test_a_supervisor_of_another_version_starts_no_core_and_is_no_member(two_nodes):
    roster = Roster("fleet-version", build_fake_core, tcp=True, version="0.0.1")
    discovery = RayDiscovery(roster)
    router = Router(discovery)
    try:
        async with asyncio.timeout(60):
            while len(router.excluded_supervisors()) < 2:
                assert not await discovery.refresh()
        (first, _) = router.excluded_supervisors().values()
        assert f"has version {running_version()} of the service" in first
        assert "install 0.0.1 there" in first
        assert all("start its Ray again" in failure for failure in roster.failures())
        with pytest.raises(VersionMismatchError):
            await router.call_all(Op.STATS, tenant="t", meta={}, body=b"", timeout_s=0.5)
    finally:
        await router.close()
        assert roster.end_all(roster.find().values(), 30)


async def test_a_gateway_that_starts_with_other_settings_replaces_the_scaler(two_nodes):
    """The former one would start supervisors with the former settings."""
    policy = ScalingPolicy(min_nodes=1, max_nodes=1, target_use=1.0, idle_s=60.0)
    former = Roster("fleet-settings", build_fake_core, node_resource="none", scaling=policy, settings="a")
    before, beside, after = (
        RayDiscovery(roster) for roster in (former, former, replace(former, settings="b"))
    )
    try:
        for gateway, expected in ((before, "a"), (beside, "a"), (after, "b"), (before, "b")):
            await gateway.refresh()
            scaler = ray.get_actor(NAME, namespace=former.fleet)
            assert await scaler.settings.remote() == expected
    finally:
        for gateway in (before, beside, after):
            await gateway.close()
        await asyncio.to_thread(end_scaler, former, 30)


async def test_a_supervisor_that_is_replaced_comes_back_on_its_node_in_a_fleet_that_scales(two_nodes):
    """As ``drain --replace`` does it; the other node is free, and stays so."""
    policy = ScalingPolicy(min_nodes=1, max_nodes=2, target_use=1.0, idle_s=60.0, interval_s=0.2)
    roster = Roster("fleet-replaced", build_fake_core, tcp=True, node_resource="replaced", scaling=policy)
    discovery = RayDiscovery(roster)
    nodes = [two_nodes.add_node(**NODE, resources={"replaced": 1}) for _ in range(2)]
    fleet = RayFleet(roster)
    try:
        await members_of(discovery, 1)
        (before,) = fleet.placed()
        await asyncio.to_thread(drain_node, fleet, before.name, 30.0, print, replace=True)
        await asyncio.sleep(5 * policy.interval_s)
        assert set(roster.find()) == {before.name}
        await discovery.refresh()
        assert discovery.scale == FleetScale(wanted=1)
        assert await asyncio.to_thread(replace_supervisors, fleet, {before.name}, 60.0)
        (after,) = fleet.placed()
        assert (after.node_id, after.draining) == (before.node_id, False)
    finally:
        await discovery.close()
        await asyncio.to_thread(end_scaler, roster, 30)
        roster.end_all(roster.find().values(), 30)
        for node in nodes:
            two_nodes.remove_node(node)


async def test_stopped_supervisors_are_drained_and_gone(two_nodes):
    roster = Roster("fleet-stop", build_fake_core)
    discovery = RayDiscovery(roster)
    try:
        members = await members_of(discovery, 2)
        paths = [Path(member.address.path) for member in members.values()]
        assert all(path.exists() for path in paths)
    finally:
        await discovery.close()
    assert roster.end_all(roster.find().values(), 30)
    assert not any(path.exists() for path in paths)
    await until_answered(lambda: asyncio.to_thread(roster.find), lambda found: not found, 30)


async def test_a_supervisor_goes_with_its_node_and_a_new_node_gets_one(two_nodes):
    roster = Roster("fleet-nodes", build_fake_core, tcp=True)
    discovery = RayDiscovery(roster)
    router = Router(discovery)
    try:
        node = two_nodes.add_node(**NODE)
        members = await members_of(discovery, 3)
        two_nodes.remove_node(node)
        left = await until_answered(discovery.refresh, lambda members: len(members) == 2, 90)
        assert set(left) < set(members)
        # No key may be stuck with the supervisor that is gone.
        for number in range(20):
            await create(router, f"mine-{number}")
    finally:
        await router.close()
        assert roster.end_all(roster.find().values(), 30)
