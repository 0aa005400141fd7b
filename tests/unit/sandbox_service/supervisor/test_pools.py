"""Pools of task images: made on demand, apart from the environment's own, in bounded number."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_contract.problems import ErrorCode, FailureClass
from sandbox_service.config import PoolConfig, SandboxConfig, TaskImagesConfig
from sandbox_service.environments.base import BoxResources, TaskImage
from sandbox_service.errors import ServiceError
from sandbox_service.supervisor.pools import Pools
from tests.fakes.clock import FakeClock
from tests.fakes.environments import fake_registry
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.harness.supervised import fake_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_contract.inspection import PoolStats
    from sandbox_service.supervisor.box_pool import BoxPool
    from sandbox_service.supervisor.pooled_box import PooledBox


class _Containers(FakeSandboxFactory):
    kind = "docker"


def image(name: str) -> TaskImage:
    return TaskImage(name, name, None, f"FROM {name}", None, 600.0, f"FROM {name}")


@asynccontextmanager
async def pools_of(
    factory: FakeSandboxFactory, clock: FakeClock | None = None, **bounds: int
) -> AsyncIterator[Pools]:
    sandbox = SandboxConfig(task_images=TaskImagesConfig(**bounds))
    config = fake_config(PoolConfig(min_boxes=1, max_boxes=9), sandbox=sandbox)
    pools = Pools(config, fake_registry(), factory, clock or FakeClock(), lambda *_: None)
    try:
        yield pools
    finally:
        await pools.close()
        assert not factory.alive


async def enter(pool: BoxPool, instance_id: str) -> PooledBox:
    async with asyncio.timeout(5):
        return await pool.acquire("ada", instance_id)


def _diary(pools: Pools) -> PoolStats:
    (figures,) = [each for each in pools.stats() if each.environment == "diary"]
    return figures


async def test_boxes_of_an_image_have_what_their_task_needs() -> None:
    factory = _Containers()
    demanding = replace(image("one"), resources=BoxResources(memory_mib=2048, cpus=2))
    async with pools_of(factory) as pools:
        assert pools.of("diary", demanding) is not pools.of("diary", image("one"))
        box = await enter(pools.of("diary", demanding), "a")
        assert demanding.resources in [each.spec.resources for each in factory.alive]
        box.leave("a", clean=True)


async def test_an_image_has_no_more_boxes_than_the_node_has_memory_for() -> None:
    demanding = replace(image("one"), resources=BoxResources(memory_mib=10**6))
    async with pools_of(_Containers(), boxes_per_image=9) as pools:
        assert pools.of("diary", image("two")).state.policy.max_boxes == 9
        assert pools.of("diary", demanding).state.policy.max_boxes == 4


async def test_boxes_of_an_image_are_apart_and_none_is_kept_warm() -> None:
    factory = _Containers()
    async with pools_of(factory) as pools:
        pool = pools.of("diary", image("one"))
        assert pool is pools.of("diary", image("one"))
        assert pool not in (pools.of("diary"), pools.of("diary", image("two")))
        pools.decide()
        box = await enter(pool, "a")
        specs = [each.spec.task_image for each in factory.alive]
        assert specs.count(image("one")) == 1
        assert image("two") not in specs
        box.leave("a", clean=True)


async def test_an_image_has_at_most_its_boxes() -> None:
    async with pools_of(_Containers(), boxes_per_image=2) as pools:
        pool = pools.of("diary", image("one"))
        boxes = [await enter(pool, name) for name in "ab"]
        waiting = asyncio.ensure_future(enter(pool, "c"))
        await asyncio.sleep(0)
        assert pool.stats().busy == 2
        assert pool.stats().queued == 1
        boxes[0].leave("a", clean=True)
        assert await waiting is boxes[0]


async def test_the_least_recently_used_image_without_instances_gives_up_its_boxes() -> None:
    factory = _Containers()
    async with pools_of(factory, images_with_boxes=2) as pools:
        held = await enter(pools.of("diary", image("held")), "a")
        left = await enter(pools.of("diary", image("left")), "b")
        left.leave("b", clean=True, reset=True)
        await enter(pools.of("diary", image("third")), "c")
        await asyncio.sleep(0)
        names = {each.spec.task_image.task_id for each in factory.alive if each.spec.task_image is not None}
        assert names == {"held", "third"}
        assert not held.discarded


async def test_a_create_for_a_further_image_may_be_retried_while_all_are_in_use() -> None:
    async with pools_of(_Containers(), images_with_boxes=1) as pools:
        box = await enter(pools.of("diary", image("one")), "a")
        with pytest.raises(ServiceError) as caught:
            pools.of("diary", image("two"))
        assert caught.value.code is ErrorCode.QUEUE_FULL
        assert caught.value.retry_after_s
        assert "sandbox.task_images.images_with_boxes" in caught.value.detail
        # The environment's other boxes do not depend on it.
        pools.of("diary")
        box.leave("a", clean=True, reset=True)
        assert pools.of("diary", image("two")) is not box.pool


async def test_an_image_that_fails_refuses_its_own_tasks_at_once_and_no_others() -> None:
    factory = _Containers()
    async with pools_of(factory) as pools:
        factory.failures.append(ServiceError(ErrorCode.TASK_INVALID, "the image cannot be built"))
        with pytest.raises(ServiceError, match="the image cannot be built") as caught:
            await enter(pools.of("diary", image("broken")), "a")
        assert caught.value.problem().failure_class is FailureClass.TASK
        await enter(pools.of("diary", image("good")), "b")
        await enter(pools.of("diary"), "c")


async def test_figures_of_an_environment_include_the_boxes_of_its_images() -> None:
    factory = _Containers()
    async with pools_of(factory, images_with_boxes=1) as pools:
        one = await enter(pools.of("diary", image("one")), "a")
        await enter(pools.of("diary"), "b")
        diary = _diary(pools)
        assert (diary.instances, diary.busy) == (2, 2)
        started = diary.started_total
        one.leave("a", clean=True, reset=True)
        pools.of("diary", image("two"))
        await asyncio.sleep(0.01)
        diary = _diary(pools)
        # Counters never fall, though the pool is gone.
        assert diary.started_total >= started
        assert diary.instances == 1


async def test_boxes_of_images_are_counted_apart_against_the_most_that_they_may_be() -> None:
    demanding = replace(image("two"), resources=BoxResources(memory_mib=10**6))
    async with pools_of(_Containers(), images_with_boxes=3, boxes_per_image=9) as pools:
        plain = _diary(pools)
        assert (plain.own_busy, plain.max_image_boxes, plain.max_images) == (0, 0, 0)
        await enter(pools.of("diary"), "a")
        await enter(pools.of("diary", image("one")), "b")
        await enter(pools.of_verifier("diary", image("tests")), "c")
        pools.of("diary", demanding)
        figures = _diary(pools)
        assert (figures.busy, figures.own_busy, figures.image_busy, figures.verifier_busy) == (3, 1, 1, 1)
        # The node has memory for four boxes of the second image.
        assert (figures.max_boxes, figures.max_image_boxes, figures.max_verifier_boxes) == (9, 22, 27)
        assert figures.most_boxes == 58
        assert (figures.images, figures.max_images) == (1, 3)


async def test_creates_that_wait_for_an_image_are_counted_apart() -> None:
    async with pools_of(_Containers(), boxes_per_image=1) as pools:
        pool = pools.of("diary", image("one"))
        await enter(pool, "a")
        waiting = asyncio.ensure_future(enter(pool, "b"))
        await asyncio.sleep(0)
        figures = _diary(pools)
        assert (figures.queued, figures.image_queued) == (1, 1)
        waiting.cancel()
        await asyncio.wait({waiting})


async def test_an_image_that_was_refused_is_needed_until_it_has_boxes_or_is_no_longer_asked_for() -> None:
    clock = FakeClock()
    async with pools_of(_Containers(), clock=clock, images_with_boxes=1) as pools:
        box = await enter(pools.of("diary", image("one")), "a")
        for name in ("two", "three", "two"):
            with pytest.raises(ServiceError):
                pools.of("diary", image(name))
        assert _diary(pools).refused_images == 2
        box.leave("a", clean=True, reset=True)
        pools.of("diary", image("two"))
        assert _diary(pools).refused_images == 1
        clock.advance(60.0)
        assert _diary(pools).refused_images == 0


async def test_process_boxes_refuse_a_task_that_needs_an_image() -> None:
    async with pools_of(FakeSandboxFactory()) as pools:
        with pytest.raises(
            ServiceError, match=r"the task one needs an image of its own \(FROM one\)"
        ) as caught:
            pools.of("diary", image("one"))
        assert caught.value.code is ErrorCode.TASK_INVALID
        assert "sandbox.kind=docker" in caught.value.detail
