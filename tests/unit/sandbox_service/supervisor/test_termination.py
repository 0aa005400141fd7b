"""Instances end by release, expiry and loss; none waits for another, and nothing is left."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import DeadlineConfig, LeaseConfig, PoolConfig
from sandbox_service.wire.frames import Op
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import supervised
from tests.harness.waiting import settle


def _message(instance: str) -> dict[str, object]:
    return {"instance_id": instance, "message": {"role": "assistant", "content": "hello"}}


async def test_release_is_idempotent() -> None:
    async with supervised() as service:
        instance = await service.create()
        assert [await service.release(instance) for _ in range(3)] == [True, False, False]
        assert await service.refusal(Op.RELEASE, "s1.never", {}) is ErrorCode.UNKNOWN_INSTANCE
        assert service.store.kinds(instance) == ["create", "release"]


async def test_a_release_that_is_sent_again_with_its_key_gives_the_same_bytes() -> None:
    async with supervised() as service:
        instance = await service.create()
        first = await service.call(Op.RELEASE, instance, {"instance_id": instance}, key="k")
        again = await service.call(Op.RELEASE, instance, {"instance_id": instance}, key="k")
        other = await service.call(Op.RELEASE, instance, {"instance_id": instance}, key="l")
        assert first.body == again.body
        assert json.loads(other.body)["released"] is False


@pytest.mark.parametrize("op", [Op.STEP, Op.EVALUATE, Op.FORK])
async def test_late_calls_are_told_that_the_instance_was_released(op: Op) -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.release(instance)
        assert await service.refusal(op, instance, _message(instance)) is ErrorCode.INSTANCE_RELEASED
        service.pass_time(LeaseConfig().tombstone_s + 1)
        assert await service.states() == {}
        assert await service.refusal(op, instance, _message(instance)) is ErrorCode.INSTANCE_RELEASED


async def test_a_release_cuts_off_a_running_step() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        box = service.factory.home_of(instance)
        box.hold(Op.STEP)
        step = asyncio.create_task(service.refusal(Op.STEP, instance, _message(instance)))
        await box.waiting.wait()
        assert await service.release(instance) is True
        box.let_go(Op.STEP)
        assert await step is ErrorCode.INSTANCE_RELEASED
        assert service.store.kinds(instance) == ["create", "release"]


async def test_a_box_for_one_instance_is_cleaned_with_its_release() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        for _ in range(3):
            instance = await service.create("diary")
            box = service.factory.home_of(instance)
            assert await service.release(instance) is True
        assert (box.runner.resets_with_release, box.resets) == (3, 0)
        assert not box.destroyed


async def test_a_box_with_a_copy_in_it_is_cleaned_when_the_last_one_leaves() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create("diary")
        box = service.factory.home_of(instance)
        (copy,) = (await service.ask(Op.FORK, instance, {"instance_id": instance}))["instance_ids"]
        assert await service.release(instance) is True
        assert box.runner.resets_with_release == 0
        assert await service.release(copy) is True
        assert (box.runner.resets_with_release, box.resets) == (1, 0)


async def test_a_release_that_hangs_costs_its_box_and_no_other_release() -> None:
    async with supervised() as service:
        stuck, other = await service.create("diary"), await service.create("diary")
        box = service.factory.home_of(stuck)
        box.hold(Op.RELEASE)
        hanging = asyncio.create_task(service.release(stuck))
        await box.waiting.wait()
        assert await service.release(other) is True
        assert await service.refusal(Op.STEP, stuck, _message(stuck)) is ErrorCode.INSTANCE_RELEASED
        box.hanging.add(Op.RELEASE)
        box.die()
        assert await hanging is True
        await service.create("diary")
        assert box.destroyed


async def test_a_release_without_an_answer_destroys_the_box() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create("diary")
        box = service.factory.home_of(instance)
        box.hanging.add(Op.RELEASE)
        assert await service.release(instance) is True
        await service.create("diary")
        assert box.destroyed
        assert len(service.factory.alive) == 1


async def test_a_late_release_costs_no_neighbour_its_life() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=2)) as service:
        slow, neighbour = await service.create(), await service.create()
        box = service.factory.home_of(slow)
        assert service.factory.home_of(neighbour) is box
        box.hanging.add(Op.RELEASE)
        assert await service.release(slow) is True
        assert await service.step(neighbour, "still here")
        assert not box.destroyed
        assert service.factory.home_of(await service.create()) is not box
        box.hanging.clear()
        assert await service.release(neighbour) is True
        await service.create()
        assert box.destroyed


@pytest.mark.parametrize("environment", ["echo", "diary"])
async def test_an_unclean_box_is_not_used_again(environment: str) -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        instance = await service.create(environment)
        box = service.factory.home_of(instance)
        box.runner.clean = False
        await service.release(instance)
        await service.create(environment)
        assert box.destroyed


async def test_a_destroy_that_hangs_is_given_up_and_its_place_taken() -> None:
    short = DeadlineConfig(release_s=0.05, drain_s=0.05)
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1), deadline=short) as service:
        instance = await service.create("diary")
        box = service.factory.home_of(instance)
        box.hang_destroy = True
        box.die()
        await service.create("diary")
        assert not box.destroyed
        box.hang_destroy = False


async def test_an_idle_instance_is_released_after_300_seconds() -> None:
    async with supervised() as service:
        idle, used = await service.create(), await service.create()
        service.pass_time(200)
        await service.step(used)
        service.pass_time(100)
        assert await service.states() == {idle: "expired", used: "active"}
        assert await service.refusal(Op.STEP, idle, _message(idle)) is ErrorCode.INSTANCE_EXPIRED
        assert await service.release(idle) is False
        assert service.store.kinds(idle) == ["create", "expire"]


async def test_a_running_step_keeps_its_instance() -> None:
    async with supervised() as service:
        instance = await service.create()
        box = service.factory.home_of(instance)
        box.hold(Op.STEP)
        step = asyncio.create_task(service.step(instance))
        await box.waiting.wait()
        service.pass_time(1000)
        box.let_go(Op.STEP)
        await step
        assert await service.states() == {instance: "active"}


async def test_a_refused_record_does_not_keep_an_ending_from_freeing_its_box() -> None:
    store = MemoryTrajectoryStore()
    async with supervised(store=store) as service:
        released, expired = await service.create("diary"), await service.create("diary")
        store.full = True
        assert await service.release(released) is True
        service.pass_time(300)
        await settle()
        assert not any(box.runner.places for box in service.factory.alive)
        store.full = False
        service.pass_time(1)
        assert store.kinds(released) == ["create", "release"]
        assert store.kinds(expired) == ["create", "expire"]


async def test_closing_leaves_no_box_and_says_what_was_lost() -> None:
    async with supervised() as service:
        kept, lost = await service.create("echo"), await service.create("diary")
        await service.core.close()
        assert service.factory.alive == []
        assert service.store.kinds(kept) == ["create"]
        assert service.store.kinds(lost) == ["create", "lost"]


async def test_closing_refuses_those_who_wait() -> None:
    async with supervised(PoolConfig(min_boxes=0, max_boxes=1)) as service:
        await service.create("diary")
        body = {"environment": "diary", "task_id": "echo-1"}
        waiting = asyncio.create_task(service.call(Op.CREATE, "", body))
        await settle()
        await service.core.close()
        await asyncio.wait({waiting})
        assert service.factory.alive == []
