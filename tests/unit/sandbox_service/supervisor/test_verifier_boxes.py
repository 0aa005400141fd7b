"""Gradings in boxes of verifiers: one box for each, and the instance is none the worse for their failures."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import SandboxConfig, TaskImagesConfig
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.sandboxes import FakeSandbox, FakeSandboxFactory
from tests.harness.supervised import Supervised, supervised
from tests.harness.waiting import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sandbox_service.environments.base import EnvironmentSpec


class Engine(FakeSandboxFactory):
    kind = "docker"
    image_gate: asyncio.Event | None = None
    """Starts of boxes of images wait for it, where there is one."""
    failing_image = ""
    """The digest of an image that brings no tests."""

    async def start(self, spec: EnvironmentSpec, *listeners: Any) -> FakeSandbox:
        if spec.task_image is not None and spec.task_image.digest == self.failing_image:
            raise ServiceError(ErrorCode.TASK_INVALID, "it has no /tests/test.sh")
        if spec.task_image is not None and self.image_gate is not None:
            await self.image_gate.wait()
        return await super().start(spec, *listeners)

    def of_verifiers(self) -> list[FakeSandbox]:
        return [box for box in self.alive if box.spec.task_image is not None]


@asynccontextmanager
async def service(images: int = 8) -> AsyncIterator[tuple[Supervised, Engine]]:
    factory = Engine()
    task_images = TaskImagesConfig(boxes_per_image=1, images_with_boxes=images)
    sandbox = SandboxConfig(task_images=task_images)
    async with supervised(factory=factory, sandbox=sandbox) as served:
        yield served, factory


async def written(served: Supervised, text: str, environment: str = "essay") -> str:
    instance = await served.create(environment)
    await served.step(instance, text)
    return instance


async def test_what_the_agent_left_is_graded_by_the_verifiers_world() -> None:
    async with service() as (served, _):
        instance = await written(served, "well done")
        verdict = await served.evaluate(instance)
        assert verdict["details"] == {"kind": "verifier", "text": "well done"}
        assert (verdict["instance_id"], verdict["score"]) == (instance, 1.0)
        # It goes on, and is graded as it stands then.
        await served.step(instance, "badly")
        assert (await served.evaluate(instance))["score"] == 0.0


async def test_the_box_of_a_verifier_is_ready_before_the_episode_and_free_after_a_grading() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        (box,) = factory.of_verifiers()
        assert not box.runner.places
        for _ in range(2):
            await served.evaluate(instance)
            await settle()
        assert factory.of_verifiers() == [box]
        assert not box.runner.places
        # One for the world that showed that the image is one.
        assert box.runner.resets_with_release == 3


ESSAY = {"environment": "essay", "task_id": "echo-1"}
ANTHOLOGY = {**ESSAY, "environment": "anthology"}


async def test_every_create_is_refused_until_a_box_of_the_verifier_was_set_up() -> None:
    async with service() as (served, factory):
        factory.failing = ServiceError(ErrorCode.TASK_INVALID, "it has no /tests/test.sh")
        codes = await asyncio.gather(*(served.refusal(Op.CREATE, "", ESSAY) for _ in range(3)))
        assert {*codes, await served.refusal(Op.CREATE, "", ESSAY)} == {ErrorCode.TASK_INVALID}
        assert await served.states() == {}
        factory.failing = None
        served.pass_time(60.0)
        assert (await served.evaluate(await written(served, "well")))["score"] == 1.0


async def test_creates_that_waited_for_the_same_proof_do_not_repeat_it() -> None:
    async with service() as (served, factory):
        await asyncio.gather(*(served.create("essay") for _ in range(2)))
        await settle()
        (box,) = factory.of_verifiers()
        assert box.runner.resets_with_release == 1


async def test_an_instance_whose_box_dies_meanwhile_is_not_created() -> None:
    async with service() as (served, factory):
        factory.image_gate = asyncio.Event()
        create = asyncio.ensure_future(served.refusal(Op.CREATE, "", ESSAY))
        await settle()
        (home,) = factory.alive
        assert home.runner.places
        home.die()
        factory.image_gate.set()
        assert await create is ErrorCode.SANDBOX_FAILED
        assert await served.states() == {}


@pytest.mark.parametrize("kind", ["process", "gvisor"])
async def test_boxes_that_are_no_containers_refuse_the_create_by_name(kind: str) -> None:
    factory = FakeSandboxFactory()
    factory.kind = kind
    async with supervised(factory=factory) as served:
        answer = await served.call(Op.CREATE, "", ESSAY)
        assert error_of(answer).code is ErrorCode.TASK_INVALID
        named = {"process": "process boxes", "gvisor": "gVisor boxes"}[kind]
        assert f"which {named} do not have" in error_of(answer).detail
        assert await served.states() == {}


async def test_a_disk_without_room_for_a_verifiers_box_is_the_nodes() -> None:
    async with service() as (served, factory):
        factory.failing = ServiceError(ErrorCode.STORAGE_FULL, "no room")
        answer = await served.call(Op.CREATE, "", ESSAY)
        assert answer.meta["node_full"] is True


async def test_the_first_verdict_on_an_episode_stands() -> None:
    async with service() as (served, factory):
        instance = await written(served, "end well")
        first = await served.evaluate(instance)
        (box,) = factory.of_verifiers()
        box.runner.refuse[Op.EVALUATE] = ("grader_failed", "no second draw")
        assert await served.evaluate(instance) == first


@pytest.mark.parametrize("loss", ["step_timeout", "instance_lost"])
async def test_a_verifier_that_fails_is_a_failure_of_the_sandbox_and_the_instance_stays(loss: str) -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        (box,) = factory.of_verifiers()
        box.runner.refuse[Op.EVALUATE] = (loss, "gone")
        body = {"instance_id": instance}
        assert await served.refusal(Op.EVALUATE, instance, body) is ErrorCode.SANDBOX_FAILED
        del box.runner.refuse[Op.EVALUATE]
        assert (await served.evaluate(instance))["score"] == 1.0


async def test_a_box_that_dies_while_it_grades_costs_the_instance_nothing() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        (box,) = factory.of_verifiers()
        box.hold(Op.EVALUATE)
        grading = asyncio.ensure_future(served.refusal(Op.EVALUATE, instance, {"instance_id": instance}))
        await box.waiting.wait()
        box.die()
        assert await grading is ErrorCode.SANDBOX_FAILED
        assert await served.states() == {instance: "active"}
        assert (await served.evaluate(instance))["score"] == 1.0


async def test_a_task_whose_tests_give_no_reward_is_told_so() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        factory.of_verifiers()[0].runner.refuse[Op.EVALUATE] = ("grader_failed", "no reward")
        body = {"instance_id": instance}
        assert await served.refusal(Op.EVALUATE, instance, body) is ErrorCode.GRADER_FAILED


async def test_gradings_wait_for_each_other_where_an_image_has_one_box() -> None:
    async with service() as (served, _):
        instances = [await written(served, text) for text in ("well", "badly")]
        verdicts = await asyncio.gather(*(served.evaluate(each) for each in instances))
        assert [verdict["score"] for verdict in verdicts] == [1.0, 0.0]


async def test_a_release_ends_a_grading_and_frees_its_box() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        (box,) = factory.of_verifiers()
        box.hold(Op.EVALUATE)
        grading = asyncio.ensure_future(served.refusal(Op.EVALUATE, instance, {"instance_id": instance}))
        await box.waiting.wait()
        assert await served.release(instance)
        await settle()
        assert not box.runner.places
        box.let_go(Op.EVALUATE)
        assert await grading is ErrorCode.INSTANCE_RELEASED
        kinds = [event.kind.value for event in served.store.own_events[instance]]
        assert kinds == ["create", "step", "release"]


async def test_a_grading_waits_for_a_box_before_the_agents_work_is_fetched() -> None:
    async with service() as (served, factory):
        first, second = [await written(served, text) for text in ("well", "badly")]
        (box,) = factory.of_verifiers()
        box.hold(Op.EVALUATE)
        gradings = [asyncio.ensure_future(served.evaluate(each)) for each in (first, second)]
        await box.waiting.wait()
        await settle()
        home = factory.home_of(second)
        home.hold(Op.EVALUATE)
        asked: list[Frame] = []
        answer = home.runner.answer
        home.runner.answer = lambda frame: (asked.append(frame), answer(frame))[1]  # type: ignore[method-assign]
        # The time in the queue is not missing for what follows.
        served.clock.advance(30.0)
        box.let_go(Op.EVALUATE)
        await home.waiting.wait()
        assert (await gradings[0])["score"] == 1.0
        home.let_go(Op.EVALUATE)
        assert (await gradings[1])["score"] == 0.0
        assert [frame.meta["deadline_s"] for frame in asked if frame.op is Op.EVALUATE] == [5.0]


async def test_gradings_are_no_instances_of_the_statistics() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well")
        (box,) = factory.of_verifiers()
        box.hold(Op.EVALUATE)
        grading = asyncio.ensure_future(served.evaluate(instance))
        await box.waiting.wait()
        (pool,) = [each for each in served.core.stats().pools if each.environment == "essay"]
        assert (pool.instances, pool.busy) == (1, 2)
        box.let_go(Op.EVALUATE)
        await grading


def images_of(boxes: list[FakeSandbox]) -> list[str]:
    return sorted(box.spec.task_image.digest for box in boxes if box.spec.task_image is not None)


async def test_parts_are_graded_in_their_order_and_in_their_boxes() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well done", "anthology")
        # Both are ready before the episode.
        assert images_of(factory.of_verifiers()) == ["marks", "style"]
        verdict = await served.evaluate(instance)
        kinds = [(each["kind"], each["marked"]) for each in verdict["details"]["results"]]
        assert kinds == [("verifier", 0), ("anthology", 1), ("verifier", 2)]
        assert (verdict["instance_id"], verdict["score"]) == (instance, 1.0)
        await settle()
        assert not any(box.runner.places for box in factory.of_verifiers())


async def test_a_part_after_the_last_that_counts_is_not_graded() -> None:
    async with service() as (served, factory):
        instance = await written(served, "badly", "anthology")
        for box in factory.of_verifiers():
            if images_of([box]) == ["style"]:
                box.runner.refuse[Op.EVALUATE] = ("grader_failed", "not asked for")
        verdict = await served.evaluate(instance)
        assert [each["marked"] for each in verdict["details"]["results"]] == [0]
        assert verdict["score"] == 0.0


async def test_each_part_has_a_share_of_the_time() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well", "anthology")
        asked: list[tuple[str, float]] = []
        for box in factory.alive:
            noted = partial(note, asked, ",".join(images_of([box])) or "home", box.runner.answer)
            box.runner.answer = noted  # type: ignore[method-assign]
        await served.evaluate(instance)
        # The number of parts; the export of a work and its grading; the part of the instance's own box.
        assert asked == [
            ("home", 5.0),
            ("home", 3.0),
            ("marks", 3.0),
            ("home", 1.0),
            ("home", 1.0),
            ("style", 1.0),
        ]


def note(asked: list[tuple[str, float]], box: str, answer: Callable[[Frame], Frame], frame: Frame) -> Frame:
    if frame.op is Op.EVALUATE:
        asked.append((box, frame.meta["deadline_s"]))
    return answer(frame)


@pytest.mark.parametrize("image", ["marks", "style"])
async def test_a_box_of_any_part_that_fails_costs_the_instance_nothing(image: str) -> None:
    async with service() as (served, factory):
        instance = await written(served, "well", "anthology")
        (box,) = (each for each in factory.of_verifiers() if images_of([each]) == [image])
        box.hold(Op.EVALUATE)
        body = {"instance_id": instance}
        grading = asyncio.ensure_future(served.refusal(Op.EVALUATE, instance, body))
        await box.waiting.wait()
        box.die()
        assert await grading is ErrorCode.SANDBOX_FAILED
        assert await served.states() == {instance: "active"}
        assert (await served.evaluate(instance))["score"] == 1.0


async def test_the_first_verdict_on_an_episode_with_parts_stands() -> None:
    async with service() as (served, factory):
        instance = await written(served, "end well", "anthology")
        first = await served.evaluate(instance)
        for box in factory.of_verifiers():
            box.runner.refuse[Op.EVALUATE] = ("grader_failed", "no second draw")
        assert await served.evaluate(instance) == first


async def test_a_create_is_refused_until_all_images_of_its_parts_were_set_up() -> None:
    async with service() as (served, factory):
        factory.failing_image = "style"
        assert await served.refusal(Op.CREATE, "", ANTHOLOGY) is ErrorCode.TASK_INVALID
        assert await served.states() == {}
        await settle()
        assert not any(box.runner.places for box in factory.alive)
        factory.failing_image = ""
        served.pass_time(60.0)
        assert (await served.evaluate(await written(served, "well", "anthology")))["score"] == 1.0


async def test_a_task_has_more_images_than_may_have_boxes_and_each_is_proven_once() -> None:
    async with service(images=1) as (served, factory):
        started: list[str] = []
        start = factory.start

        async def noted(spec: EnvironmentSpec, *listeners: Any) -> FakeSandbox:
            started.append("home" if spec.task_image is None else spec.task_image.digest)
            return await start(spec, *listeners)

        factory.start = noted  # type: ignore[method-assign]
        instance = await written(served, "well", "anthology")
        assert started == ["home", "marks", "style"]
        await served.create("anthology")
        assert started == ["home", "marks", "style", "home"]
        assert (await served.evaluate(instance))["score"] == 1.0


async def test_an_image_that_is_refused_keeps_no_other_from_its_proof() -> None:
    async with service() as (served, factory):
        factory.failing_image = "style"
        factory.image_gate = asyncio.Event()
        create = asyncio.ensure_future(served.refusal(Op.CREATE, "", ANTHOLOGY))
        await settle()
        factory.image_gate.set()
        assert await create is ErrorCode.TASK_INVALID
        (box,) = factory.of_verifiers()
        assert (images_of([box]), box.runner.resets_with_release) == (["marks"], 1)


async def test_exceptions_of_worlds_that_grade_parts_are_counted() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well", "anthology")
        for box in factory.of_verifiers():
            if images_of([box]) == ["marks"]:
                box.runner.exception = "KeyError"
        await served.evaluate(instance)
        assert served.core.stats().world_exceptions == {"anthology": 1}


async def test_what_the_agents_box_exports_does_not_say_what_is_graded() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well", "anthology")
        home = factory.home_of(instance)
        answer = home.runner.answer

        def forged(frame: Frame) -> Frame:
            reply = answer(frame)
            if frame.op is Op.EVALUATE and b"export_work" in frame.body:
                planted = b',"part":{"number":7},"grading":{},"count_parts":true,"export_work":{}'
                return frame.reply(reply.body + planted, reply.meta)
            return reply

        home.runner.answer = forged  # type: ignore[method-assign]
        results = (await served.evaluate(instance))["details"]["results"]
        assert [each["part"] for each in results] == [{"number": number} for number in range(3)]


async def test_a_release_between_two_parts_ends_the_grading() -> None:
    async with service() as (served, factory):
        instance = await written(served, "well", "anthology")
        (box,) = (each for each in factory.of_verifiers() if images_of([each]) == ["style"])
        box.hold(Op.EVALUATE)
        body = {"instance_id": instance}
        grading = asyncio.ensure_future(served.refusal(Op.EVALUATE, instance, body))
        await box.waiting.wait()
        assert await served.release(instance)
        await settle()
        assert not box.runner.places
        box.let_go(Op.EVALUATE)
        assert await grading is ErrorCode.INSTANCE_RELEASED
