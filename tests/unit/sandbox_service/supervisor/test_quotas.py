"""The shares of tenants of one node, and the answer to one that wants more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import PoolConfig, QuotaConfig, ServerConfig
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Op
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.gateway import digest
from tests.harness.supervised import supervised
from tests.harness.waiting import settle

if TYPE_CHECKING:
    from sandbox_service.trajectories.records import InstanceRecord

TWO = ServerConfig(api_keys={digest("ada"): "ada", digest("bob"): "bob"})
ECHO = {"environment": "echo", "task_id": "echo-10"}
FOUR_BOXES = PoolConfig(min_boxes=0, max_boxes=4, max_starting=4)
DIARY = {"environment": "diary", "task_id": "echo-1"}


@pytest.mark.parametrize("fresh", [True, False])
async def test_four_greedy_creates_starve_no_other_tenant(fresh: bool) -> None:
    async with supervised(FOUR_BOXES, server=TWO) as service:
        for _ in range(3):
            await service.create("diary", fresh=fresh)
        late = asyncio.create_task(service.ask(Op.CREATE, "", {**DIARY, "fresh": fresh}))
        await settle()
        await service.tenant_named("bob").create("diary", fresh=fresh)
        service.pass_time(60)
        with pytest.raises(ServiceError) as refused:
            await late
        assert refused.value.code is ErrorCode.QUOTA_EXCEEDED
        assert refused.value.retry_after_s is not None
        assert "3 of 4" in refused.value.detail
        assert "quota.box_share" in refused.value.detail


async def test_a_single_tenant_has_all_boxes_and_no_quota() -> None:
    quota = QuotaConfig(max_instances=1, stored_mib_per_day=1)
    async with supervised(FOUR_BOXES, quota=quota) as service:
        for _ in range(4):
            await service.step(await service.create("diary", fresh=True), "x" * 600_000)


async def test_live_instances_are_counted_by_tenant() -> None:
    async with supervised(server=TWO, quota=QuotaConfig(max_instances=2)) as service:
        first = await service.create()
        body = {"instance_id": first, "count": 2}
        assert await service.refusal(Op.FORK, first, body) is ErrorCode.QUOTA_EXCEEDED
        await service.create()
        with pytest.raises(ServiceError, match=r"2 of 2 .*quota\.max_instances") as refused:
            await service.create()
        assert (refused.value.code, refused.value.retry_after_s) == (ErrorCode.QUOTA_EXCEEDED, 5.0)
        await service.tenant_named("bob").create()
        await service.release(first)
        await service.create()


class _WaitingStore(MemoryTrajectoryStore):
    """Looks up instances as a database does: others run in the meantime."""

    async def instance(self, tenant: str, public_id: str) -> InstanceRecord | None:
        await asyncio.sleep(0)
        return await super().instance(tenant, public_id)


async def test_creates_of_chosen_ids_at_the_same_time_do_not_pass_the_quota() -> None:
    async with supervised(server=TWO, quota=QuotaConfig(max_instances=2), store=_WaitingStore()) as service:
        bodies = [{"environment": "echo", "task_id": "echo-10", "instance_id": f"c{n}"} for n in range(6)]
        answers = await asyncio.gather(*(service.call(Op.CREATE, "", body) for body in bodies))
        refused = [error_of(answer).code for answer in answers if answer.op is Op.ERROR]
        assert refused == [ErrorCode.QUOTA_EXCEEDED] * 4
        assert len(await service.states()) == 2


async def test_forks_at_the_same_time_do_not_pass_the_quota() -> None:
    async with supervised(server=TWO, quota=QuotaConfig(max_instances=5)) as service:
        sources = [await service.create(), await service.create()]
        answers = await asyncio.gather(
            *(service.call(Op.FORK, each, {"instance_id": each, "count": 2}) for each in sources)
        )
        assert sorted(answer.op.name for answer in answers) == ["ERROR", "REPLY"]
        assert len(await service.states()) == 4


async def test_a_tenant_that_had_too_much_recorded_gets_no_new_instance_and_its_others_go_on() -> None:
    async with supervised(server=TWO, quota=QuotaConfig(stored_mib_per_day=1)) as service:
        instance = await service.create("echo", "echo-endless")
        await service.step(instance, "x" * 600_000)
        with pytest.raises(ServiceError, match=r"quota\.stored_mib_per_day") as refused:
            await service.create()
        assert refused.value.code is ErrorCode.QUOTA_EXCEEDED
        assert refused.value.retry_after_s == 3600
        body = {"instance_id": instance}
        assert await service.refusal(Op.FORK, instance, body) is ErrorCode.QUOTA_EXCEEDED
        await service.tenant_named("bob").create()
        await service.step(instance, "y" * 600_000)
        assert service.store.kinds(instance) == ["create", "step", "step"], "no record is dropped"
        service.pass_time(25 * 3600)
        await service.create()


async def test_what_a_tenant_had_recorded_counts_after_the_supervisor_starts_again() -> None:
    quota = QuotaConfig(stored_mib_per_day=1)
    async with supervised(server=TWO, quota=quota) as service:
        instance = await service.create("echo", "echo-endless")
        await service.step(instance, "x" * 600_000)
        service.clock.advance(3600)
        await service.release(instance)
    store, clock = service.store, service.clock
    async with supervised(server=TWO, quota=quota, store=store, clock=clock) as service:
        await settle()
        assert await service.refusal(Op.CREATE, "", ECHO) is ErrorCode.QUOTA_EXCEEDED
        await service.tenant_named("bob").create()
        service.pass_time(24 * 3600)
        await service.create()


async def test_costly_instances_are_set_up_a_few_at_a_time_and_none_fails() -> None:
    pool = PoolConfig(min_boxes=0, max_boxes=1, max_creating=2)
    async with supervised(pool) as service:
        await service.release(await service.create())
        box = service.factory.alive[0]
        box.hold(Op.CREATE)
        creates = [asyncio.create_task(service.create()) for _ in range(6)]
        await settle()
        assert next(pool.queued for pool in service.core.stats().pools if pool.environment == "echo") == 4
        box.let_go(Op.CREATE)
        assert len(set(await asyncio.gather(*creates))) == 6


async def test_creates_that_wait_to_be_set_up_count_towards_the_limit_of_the_queue() -> None:
    pool = PoolConfig(min_boxes=0, max_boxes=1, max_creating=1, queue_limit=2)
    async with supervised(pool) as service:
        await service.release(await service.create())
        box = service.factory.alive[0]
        box.hold(Op.CREATE)
        creates = [asyncio.create_task(service.create()) for _ in range(3)]
        await settle()
        body = {"environment": "echo", "task_id": "echo-10"}
        refused = asyncio.create_task(service.refusal(Op.CREATE, "", body))
        await settle()
        box.let_go(Op.CREATE)
        assert await refused is ErrorCode.QUEUE_FULL
        assert len(set(await asyncio.gather(*creates))) == 3
