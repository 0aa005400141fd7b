"""Creating instances: two phases, rollback, quotas, keys."""

from __future__ import annotations

import asyncio

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import PoolConfig, StoreConfig
from sandbox_service.stream.failures import error_of
from sandbox_service.supervisor.idempotency import KeyEntry
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, fake_config, killed, supervised
from tests.harness.waiting import settle

ONE_BOX = PoolConfig(min_boxes=0, max_boxes=1)


def _pool(service: Supervised, environment: str = "echo") -> dict[str, int]:
    pools = service.core.stats().pools
    return next(pool for pool in pools if pool.environment == environment).model_dump()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"environment": "chess", "task_id": "e4"}, ErrorCode.UNKNOWN_ENVIRONMENT),
        ({"environment": "echo", "task_id": "nope"}, ErrorCode.UNKNOWN_TASK),
        ({"environment": "echo"}, ErrorCode.INVALID_REQUEST),
        ({"environment": "echo", "task_id": 7}, ErrorCode.INVALID_REQUEST),
        ({"environment": "echo", "task_id": "echo-1", "sead": 1}, ErrorCode.INVALID_REQUEST),
        ({"environment": "echo", "task_id": "echo-1", "instance_id": "../x"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_wrong_create_is_refused_and_leaves_nothing(
    fields: dict[str, object], code: ErrorCode
) -> None:
    async with supervised() as service:
        assert await service.refusal(Op.CREATE, "", fields, key="k") is code
        assert await service.states() == {}
        assert service.factory.attempts == 0


async def test_a_task_that_asks_for_more_time_of_grading_than_is_allowed_is_refused_by_name() -> None:
    async with supervised() as service:
        answer = await service.call(Op.CREATE, "", {"environment": "thesis", "task_id": "echo-1"})
        error = error_of(answer)
        assert error.code is ErrorCode.TASK_INVALID
        assert "echo-1 asks for 901 s" in error.detail
        assert "environments.max_evaluate_s" in error.detail
        assert await service.states() == {}


async def test_a_task_that_is_too_large_for_a_box_is_refused_and_the_box_keeps_its_instances() -> None:
    async with supervised() as service:
        neighbour = await service.create()
        (box,) = service.factory.alive
        box.largest_body = 50
        error = error_of(await service.call(Op.CREATE, "", {"environment": "echo", "task_id": "echo-10"}))
        assert error.code is ErrorCode.TASK_INVALID
        assert "the task's data do not fit" in error.detail
        await settle()
        assert service.factory.alive == [box]
        assert await service.states() == {neighbour: "active"}
        assert _pool(service)["instances"] == 1


async def test_a_body_that_is_no_json_is_refused() -> None:
    async with supervised() as service:
        assert await service.refusal(Op.CREATE, raw=b"{nope") is ErrorCode.INVALID_REQUEST


async def test_a_chosen_id_is_taken_once_for_ever() -> None:
    async with supervised() as service:
        assert await service.create(instance_id="mine") == "mine"
        body = {"environment": "echo", "task_id": "echo-1", "instance_id": "mine"}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.DUPLICATE_INSTANCE
        await service.release("mine")
        service.pass_time(10_000)
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.DUPLICATE_INSTANCE


async def test_two_tenants_choose_the_same_id_and_have_two_instances() -> None:
    async with supervised() as service:
        eve = service.tenant_named("eve")
        for tenant in (service, eve):
            assert await tenant.create(instance_id="mine") == "mine"
        assert (await service.step("mine"))["instance_id"] == "mine"
        assert (await service.states(), await eve.states()) == ({"mine": "active"}, {"mine": "active"})
        assert await service.release("mine")
        assert (await eve.step("mine"))["step_index"] == 0
        service.pass_time(10_000)
        body = {"environment": "echo", "task_id": "echo-1", "instance_id": "mine"}
        assert await eve.refusal(Op.CREATE, "", body) is ErrorCode.DUPLICATE_INSTANCE
        assert await service.tenant_named("cat").create(instance_id="mine") == "mine"


async def test_an_id_that_the_service_made_for_one_tenant_is_free_for_another() -> None:
    async with supervised() as service:
        made = await service.create()
        eve = service.tenant_named("eve")
        assert await eve.create(instance_id=made) == made
        assert await eve.release(made)
        assert await service.states() == {made: "active"}


async def test_a_tenant_cannot_choose_an_id_that_the_service_made_for_it() -> None:
    async with supervised() as service:
        body = {"environment": "echo", "task_id": "echo-1", "instance_id": await service.create()}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.DUPLICATE_INSTANCE


async def test_a_failed_setup_frees_the_box_and_leaves_nothing() -> None:
    async with supervised(ONE_BOX) as service:
        await service.release(await service.create("diary"))
        (box,) = service.factory.alive
        box.runner.refuse[Op.CREATE] = ("task_invalid", "no such file")
        body = {"environment": "diary", "task_id": "echo-1", "instance_id": "mine"}
        assert await service.refusal(Op.CREATE, "", body, key="k") is ErrorCode.TASK_INVALID
        assert service.store.records.keys() == {next(iter(service.store.records))}
        del box.runner.refuse[Op.CREATE]
        assert await service.create("diary", instance_id="mine", key="k") == "mine"
        assert service.factory.attempts == 1


async def test_a_create_whose_record_is_refused_leaves_nothing() -> None:
    store = MemoryTrajectoryStore()
    async with supervised(store=store) as service:
        store.full = True
        body = {"environment": "echo", "task_id": "echo-1"}
        assert await service.refusal(Op.CREATE, "", body, key="k") is ErrorCode.STORAGE_FULL
        assert await service.states() == {}
        store.full = False
        await service.create(key="k")


async def test_a_create_recorded_by_half_is_written_off_as_lost() -> None:
    store = MemoryTrajectoryStore()
    async with supervised(store=store) as service:
        store.room = 1
        body = {"environment": "echo", "task_id": "echo-1"}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.STORAGE_FULL
        store.full, store.room = False, None
        service.pass_time(1)
        (instance,) = store.records
        assert store.kinds(instance) == ["lost"]
        assert await service.states() == {}


async def test_a_box_that_died_idle_costs_a_second_try_and_no_failure() -> None:
    async with supervised() as service:
        await service.release(await service.create("diary"))
        (box,) = service.factory.alive
        box.alive = False
        await service.create("diary")
        assert box.destroyed
        assert len(service.factory.alive) == 1


async def test_a_setup_that_is_late_costs_no_neighbour_its_box() -> None:
    async with supervised(ONE_BOX, factory=FakeSandboxFactory(capacity=2)) as service:
        neighbour = await service.create("diary")
        (box,) = service.factory.alive
        box.hanging.add(Op.CREATE)
        body = {"environment": "diary", "task_id": "echo-1"}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.SANDBOX_FAILED
        box.hanging.clear()
        assert (await service.step(neighbour))["step_index"] == 0
        await service.create("diary")
        assert service.factory.alive == [box]


async def test_a_setup_in_a_runner_that_is_dead_destroys_the_box() -> None:
    async with supervised(ONE_BOX) as service:
        await service.release(await service.create("diary"))
        (box,) = service.factory.alive
        box.hanging |= {Op.CREATE, Op.PING}
        body = {"environment": "diary", "task_id": "echo-1"}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.SANDBOX_FAILED
        await service.create("diary")
        assert box.destroyed
        assert await _states_of(service) == ["released", "active"]


@pytest.mark.parametrize(
    ("code", "told"),
    [("step_timeout", ErrorCode.STEP_TIMEOUT), ("instance_lost", ErrorCode.SANDBOX_FAILED)],
)
async def test_a_setup_that_dies_leaves_its_neighbours_alone(code: str, told: ErrorCode) -> None:
    async with supervised() as service:
        neighbour = await service.create("echo")
        box = service.factory.home_of(neighbour)
        box.runner.refuse[Op.CREATE] = (code, "its worker was killed")
        body = {"environment": "echo", "task_id": "echo-1"}
        assert await service.refusal(Op.CREATE, "", body, key="k") is told
        box.runner.refuse.clear()
        assert await service.states() == {neighbour: "active"}
        assert (await service.step(neighbour))["step_index"] == 0
        await service.create("echo", task_id="echo-1", key="k")
        assert service.factory.alive == [box]


async def _states_of(service: Supervised) -> list[str]:
    return list((await service.states()).values())


async def test_the_same_key_gives_the_same_instance() -> None:
    async with supervised() as service:
        first, second = await asyncio.gather(service.create(key="k"), service.create(key="k"))
        assert first == second == await service.create(key="k")
        assert len(await service.states()) == 1
        assert await service.tenant_named("bob").create(key="k") != first


async def test_a_key_stands_for_one_request() -> None:
    async with supervised() as service:
        await service.create(key="k", seed=1)
        body = {"environment": "echo", "task_id": "echo-10", "seed": 2}
        assert await service.refusal(Op.CREATE, "", body, key="k") is ErrorCode.IDEMPOTENCY_CONFLICT


async def test_a_request_may_be_written_differently_under_its_key() -> None:
    async with supervised() as service:
        first = await service.create(key="k")
        raw = b'{"task_id":"echo-10",  "environment":"echo"}'
        answer = await service.call(Op.CREATE, raw=raw, key="k")
        assert answer.instance_id == first


async def test_a_caller_that_goes_away_finds_its_instance_under_the_key() -> None:
    async with supervised() as service:
        service.factory.gate = asyncio.Event()
        impatient = asyncio.create_task(service.create("diary", key="k"))
        await settle()
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        service.factory.gate.set()
        instance = await service.create("diary", key="k")
        assert await service.states() == {instance: "active"}


async def test_a_draining_supervisor_refuses_new_instances_and_serves_the_others() -> None:
    async with supervised() as service:
        instance = await service.create(key="k")
        assert (await service.ask(Op.DRAIN))["draining"] is True
        assert await service.refusal(Op.CREATE, "", {"environment": "echo", "task_id": "echo-1"}) is (
            ErrorCode.DRAINING
        )
        assert await service.refusal(Op.FORK, instance, {"instance_id": instance}) is ErrorCode.DRAINING
        assert await service.create(key="k") == instance
        await service.step(instance)


async def test_a_draining_supervisor_answers_a_create_that_only_its_store_remembers() -> None:
    service = Supervised(fake_config(), FakeSandboxFactory(), MemoryTrajectoryStore(), FakeClock())
    await service.core.start()
    instance = await service.create(key="k")
    restarted = await killed(service)
    await restarted.core.begin_drain(move=False)
    assert await restarted.create(key="k") == instance
    body = {"environment": "echo", "task_id": "echo-10"}
    assert await restarted.refusal(Op.CREATE, "", body, key="new") is ErrorCode.DRAINING
    await restarted.core.cancel_drain()
    assert await restarted.create(key="new") != instance
    await restarted.core.close()


async def test_a_create_whose_record_was_pruned_is_executed_again_and_once() -> None:
    config = fake_config(store=StoreConfig(answers_mib=1))
    service = Supervised(config, FakeSandboxFactory(), MemoryTrajectoryStore(), FakeClock())
    await service.core.start()
    pruned = await service.create(key="k")
    await service.release(pruned)
    _fill_memory(service)
    assert await service.create(key="k") == pruned, "the record has it"
    _fill_memory(service)
    del service.store.records[pruned], service.store.own_events[pruned]
    first, second = await asyncio.gather(service.create(key="k"), service.create(key="k"))
    assert first == second != pruned
    assert await service.create(key="k") == first
    assert await service.states() == {pruned: "released", first: "active"}
    await service.core.close()


def _fill_memory(service: Supervised) -> None:
    """Have another answer take the place of all that are held in 1 MiB."""
    service.core.answers.hold("ada", KeyEntry(b""), Frame(Op.REPLY, 1, body=b"x" * (1024 * 1024 - 512)))


async def test_256_episodes_in_a_row_of_one_tenant_start_no_further_box() -> None:
    async with supervised(PoolConfig(min_boxes=1, max_boxes=8)) as service:
        running = [await service.create("diary") for _ in range(8)]
        assert _pool(service, "diary")["started_total"] == 8
        for _ in range(248):
            await service.release(running.pop(0))
            running.append(await service.create("diary"))
        assert _pool(service, "diary")["started_total"] == 8


async def test_a_box_serves_another_tenant_never() -> None:
    async with supervised(ONE_BOX) as service:
        await service.release(await service.create("diary"))
        (box,) = service.factory.alive
        await service.tenant_named("bob").create("diary")
        assert box.destroyed
        assert len(service.factory.alive) == 1


async def test_a_fresh_instance_gets_an_unused_box() -> None:
    async with supervised(ONE_BOX) as service:
        await service.release(await service.create("diary"))
        (box,) = service.factory.alive
        await service.create("diary", fresh=True)
        assert box.destroyed
