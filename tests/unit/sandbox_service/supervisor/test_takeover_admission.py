"""A node takes over the instances that it can rebuild, and leaves the others to nodes that can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import LeaseConfig
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Op
from tests.contract.store_ownership import end_lease
from tests.harness.shared_store import Nodes, nodes_of_one_database

LEASE_S = LeaseConfig().idle_timeout_s


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes_of_one_database(tmp_path) as start:
        yield start


@pytest.mark.parametrize("code", [ErrorCode.IMAGE_MISSING, ErrorCode.STORAGE_FULL])
async def test_a_node_without_image_or_room_leaves_an_instance_to_another(
    nodes: Nodes, code: ErrorCode
) -> None:
    first, lacking, able = [await nodes(name) for name in ("s1", "s2", "s3")]
    instance = await first.service.create()
    end_lease(first.url, "s1")
    lacking.service.factory.failing = ServiceError(code, "no image, or no room for it")
    refusal = error_of(await lacking.ask(Op.STEP, instance, take_over_from="s1"))
    assert refusal.code is code
    assert is_of_node(refusal)
    # Nothing has changed for the owner: it may have been cut off, and come back.
    assert (await first.service.step(instance))["step_index"] == 0
    end_lease(first.url, "s1")
    assert (await able.service.step(instance, take_over_from="s1"))["step_index"] == 1


async def test_a_node_that_gets_the_image_takes_over_what_it_refused(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    factory = second.service.factory
    factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    answers = await asyncio.gather(*(second.ask(Op.STEP, instance, take_over_from="s1") for _ in range(3)))
    assert {error_of(answer).code for answer in answers} == {ErrorCode.IMAGE_MISSING}
    assert factory.attempts == 1, "calls at the same time share the attempt"
    factory.failing = None
    second.service.clock.advance(60)
    assert (await second.service.step(instance, take_over_from="s1"))["step_index"] == 0


async def test_what_no_node_can_rebuild_is_lost_once_its_lease_is_over(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    await first.service.step(instance, "one", key="k")
    end_lease(first.url, "s1")
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    last = {"take_over_from": "s1", "last_resort": True}
    assert await second.refusal(Op.STEP, instance, **last) is ErrorCode.IMAGE_MISSING
    second.service.clock.advance(LEASE_S + 1)
    lost = error_of(await second.ask(Op.STEP, instance, **last))
    assert lost.code is ErrorCode.INSTANCE_LOST
    assert "no node can rebuild it: no image" in lost.detail
    assert [event.kind.value for event in await second.store.events(instance)] == ["create", "step", "lost"]
    # For good, also once there is an image, and answers that are on record stay.
    second.service.factory.failing = None
    assert await second.refusal(Op.STEP, instance, **last) is ErrorCode.INSTANCE_LOST
    assert (await second.ask(Op.STEP, instance, "one", key="k")).op is Op.REPLY


async def test_an_instance_is_not_lost_while_its_owner_holds_its_own_lease(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    second.service.clock.advance(LEASE_S + 1)
    last = {"take_over_from": "s1", "last_resort": True}
    assert await second.refusal(Op.STEP, instance, **last) is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert (await first.service.step(instance))["step_index"] == 0


async def test_a_node_without_the_image_releases_instances_and_knows_which_have_ended(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    ended, released = await first.service.create(), await first.service.create()
    await first.service.release(ended)
    end_lease(first.url, "s1")
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    last = {"take_over_from": "s1", "last_resort": True}
    assert await second.refusal(Op.STEP, ended, **last) is ErrorCode.INSTANCE_RELEASED
    assert await second.service.release(released, take_over_from="s1")


async def test_an_answer_that_is_on_record_needs_no_node_that_can_rebuild_the_instance(nodes: Nodes) -> None:
    first, second, able = [await nodes(name) for name in ("s1", "s2", "s3")]
    instance = await first.service.create()
    answer = await first.ask(Op.STEP, instance, "one", key="k")
    end_lease(first.url, "s1")
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    again = await second.ask(Op.STEP, instance, "one", key="k", take_over_from="s1")
    assert (again.op, again.body) == (Op.REPLY, answer.body)
    # It was not claimed for that: a node with the image may still have it.
    assert (await able.service.step(instance, take_over_from="s1"))["step_index"] == 1


async def test_what_has_ended_is_known_without_the_image(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    await first.service.release(instance)
    end_lease(first.url, "s1")
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    assert await second.refusal(Op.STEP, instance, take_over_from="s1") is ErrorCode.INSTANCE_RELEASED


async def test_calls_at_the_last_resort_record_one_loss(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    second.service.factory.failing = ServiceError(ErrorCode.IMAGE_MISSING, "no image")
    second.service.clock.advance(LEASE_S + 1)
    last = {"take_over_from": "s1", "last_resort": True}
    answers = await asyncio.gather(*(second.ask(Op.STEP, instance, **last) for _ in range(3)))
    assert {error_of(answer).code for answer in answers} == {ErrorCode.INSTANCE_LOST}
    assert [event.kind.value for event in await second.store.events(instance)] == ["create", "lost"]
