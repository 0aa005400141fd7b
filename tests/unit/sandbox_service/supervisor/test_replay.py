"""Instances are rebuilt by replay; those that cannot be rebuilt are lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import PoolConfig
from sandbox_service.wire.frames import Op
from tests.harness.supervised import supervised
from tests.harness.waiting import settle


def _message(instance: str, content: str = "hello") -> dict[str, object]:
    return {"instance_id": instance, "message": {"role": "assistant", "content": content}}


@pytest.mark.parametrize("environment", ["echo", "sheet"])
async def test_an_instance_goes_on_in_another_box_where_it_was(environment: str) -> None:
    async with supervised() as service:
        instance = await service.create(environment)
        for number in range(3):
            await service.step(instance, f"m{number}")
        service.factory.home_of(instance).die()
        result = await service.step(instance, "m3", step_index=3)
        assert result["step_index"] == 3
        assert (await service.evaluate(instance))["score"] == 0.4
        assert service.store.kinds(instance) == [
            "create", "step", "step", "step", "replay", "step", "evaluate",
        ]  # fmt: skip


async def test_an_instance_that_cannot_be_rebuilt_is_lost_and_never_scored() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.step(instance)
        service.factory.home_of(instance).die()
        for op in (Op.STEP, Op.EVALUATE, Op.FORK):
            assert await service.refusal(op, instance, _message(instance)) is ErrorCode.INSTANCE_LOST
        assert await service.release(instance) is False
        assert service.store.own_events[instance][-1].reward is None


@pytest.mark.parametrize(
    ("environment", "code"), [("sheet", ErrorCode.SANDBOX_FAILED), ("diary", ErrorCode.INSTANCE_LOST)]
)
async def test_a_box_killed_in_mid_step_is_a_typed_error_and_others_go_on(
    environment: str, code: ErrorCode
) -> None:
    async with supervised() as service:
        instance, other = await service.create(environment), await service.create(environment)
        box = service.factory.home_of(instance)
        box.hold(Op.STEP)
        step = asyncio.create_task(service.refusal(Op.STEP, instance, _message(instance), key="k"))
        await box.waiting.wait()
        box.die()
        assert await step is code
        assert (await service.step(other))["step_index"] == 0
        if environment == "sheet":
            assert (await service.step(instance, "hello", key="k"))["step_index"] == 0


async def test_a_worker_that_dies_takes_its_neighbours_state_and_not_their_history() -> None:
    async with supervised() as service:
        first, second = await service.create(), await service.create()
        await service.step(second)
        box = service.factory.home_of(first)
        box.runner.refuse[Op.STEP] = ("instance_lost", "the worker died")
        assert await service.refusal(Op.STEP, first, _message(first)) is ErrorCode.SANDBOX_FAILED
        box.runner.refuse.clear()
        box.lose(second)
        assert (await service.step(first))["step_index"] == 0
        assert (await service.step(second))["step_index"] == 1


async def test_a_step_that_a_neighbour_kept_from_starting_is_taken_by_the_rebuilt_instance() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance, "before")
        box = service.factory.home_of(instance)
        box.kept_from_starting = 2
        assert (await service.step(instance, "after"))["step_index"] == 1
        assert service.factory.executions(instance, "after") == 1
        assert service.factory.executions(instance, "before") == 2
        box.kept_from_starting = 9
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.SANDBOX_FAILED
        box.kept_from_starting = 0
        assert (await service.step(instance, "last"))["step_index"] == 2


async def test_an_instance_that_cannot_be_rebuilt_is_lost_to_a_neighbour() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        service.factory.home_of(instance).kept_from_starting = 1
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.INSTANCE_LOST


async def test_a_fork_is_rebuilt_from_its_own_history_and_its_parents() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance, "both")
        (copy,) = await service.fork(instance)
        await service.step(instance, "parent")
        await service.step(copy, "copy")
        service.factory.home_of(copy).die()
        assert (await service.step(copy, "after"))["step_index"] == 2
        assert service.factory.executions(copy, "parent") == 0
        assert service.factory.executions(copy, "copy") == 2


@pytest.mark.parametrize(
    ("index", "change"),
    [(0, {"observation": {"messages": []}}), (1, {"reward": 0.5})],
    ids=["create", "step"],
)
async def test_a_replay_that_goes_elsewhere_loses_the_instance(index: int, change: dict[str, object]) -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance, "hello")
        events = service.store.own_events[instance]
        response = json.loads(events[index].response) | change
        events[index] = replace(events[index], response=json.dumps(response).encode())
        service.factory.home_of(instance).die()
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.INSTANCE_LOST
        assert service.store.kinds(instance)[-1] == "lost"
        service.pass_time(1)
        assert not any(box.runner.places for box in service.factory.alive)


async def test_an_instance_outlives_a_system_prompt_that_a_release_has_reworded() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance, "hello")
        events = service.store.own_events[instance]
        created = json.loads(events[0].response)
        created["observation"]["messages"].insert(0, {"role": "system", "content": "Formerly so."})
        events[0] = replace(events[0], response=json.dumps(created).encode())
        service.factory.home_of(instance).die()
        assert (await service.step(instance))["step_index"] == 1


async def test_a_rebuild_waits_until_its_former_place_is_clear() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create("echo")
        await service.step(instance, "one")
        box = service.factory.home_of(instance)
        box.runner.refuse[Op.STEP] = ("step_timeout", "killed")
        box.hold(Op.RELEASE)
        await service.refusal(Op.STEP, instance, _message(instance))
        box.runner.refuse.clear()
        rebuilding = asyncio.create_task(service.step(instance, "two"))
        await box.waiting.wait()
        await settle()
        box.let_go(Op.RELEASE)
        assert (await rebuilding)["step_index"] == 1
        await settle()
        assert (await service.step(instance, "three"))["step_index"] == 2
        assert service.store.kinds(instance).count("replay") == 1


async def test_a_rebuild_waits_for_a_box_like_a_create() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create("sheet")
        await service.step(instance)
        service.factory.home_of(instance).die()
        blocker = await service.create("sheet")
        waiting = asyncio.create_task(service.step(instance, "second"))
        await settle()
        assert not waiting.done()
        await service.release(blocker)
        assert (await waiting)["step_index"] == 1


async def test_a_release_during_a_rebuild_leaves_nothing() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create("sheet")
        service.factory.home_of(instance).die()
        blocker = await service.create("sheet")
        waiting = asyncio.create_task(service.refusal(Op.STEP, instance, _message(instance)))
        await settle()
        assert await service.release(instance) is True
        await service.release(blocker)
        assert await waiting is ErrorCode.INSTANCE_RELEASED
        assert not any(box.runner.places for box in service.factory.alive)


async def test_a_worker_that_dies_takes_the_instance_of_its_own_tenant_only() -> None:
    async with supervised() as service:
        eve = service.tenant_named("eve")
        box = None
        for tenant in (service, eve):
            await tenant.create("diary", instance_id="mine")
            box = box or service.factory.home_of("mine")
        assert box is not None
        box.lose("mine")
        assert await service.refusal(Op.STEP, "mine", _message("mine")) is ErrorCode.INSTANCE_LOST
        assert (await eve.step("mine"))["step_index"] == 0


@pytest.mark.parametrize("op", [Op.FILE_WRITE, Op.RUN_AGENT])
async def test_a_change_that_is_not_recorded_finds_a_rebuilt_instance_and_ends_its_rebuilds(op: Op) -> None:
    async with supervised() as service:
        instance = await service.create("ledger")
        await service.step(instance)
        service.factory.home_of(instance).die()
        agent = json.dumps({"instance_id": instance, "command": ["true"]}).encode()
        answer = await service.call(op, instance, raw=b"x" if op is Op.FILE_WRITE else agent, path="a.txt")
        assert answer.op is Op.REPLY
        assert (await service.step(instance))["step_index"] == 1
        service.factory.home_of(instance).die()
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.INSTANCE_LOST


async def test_a_change_that_ended_with_the_box_leaves_the_instance_as_it_was() -> None:
    async with supervised() as service:
        instance = await service.create("ledger")
        await service.step(instance)
        box = service.factory.home_of(instance)
        box.hold(Op.FILE_WRITE)
        write = asyncio.create_task(service.refusal(Op.FILE_WRITE, instance, raw=b"x", path="a.txt"))
        await box.waiting.wait()
        box.die()
        assert await write is ErrorCode.SANDBOX_FAILED
        assert (await service.step(instance))["step_index"] == 1


async def test_a_write_that_the_environment_does_not_support_costs_nothing() -> None:
    async with supervised() as service:
        instance = await service.create("sheet")
        refusal = await service.refusal(Op.FILE_WRITE, instance, raw=b"x", path="a.txt")
        assert refusal is ErrorCode.FILES_UNSUPPORTED
        service.factory.home_of(instance).die()
        assert (await service.step(instance))["step_index"] == 0
