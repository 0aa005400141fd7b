"""Steps, evaluations and files: alone on the instance, once for each key."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Op
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, supervised
from tests.harness.waiting import settle


def _message(instance: str, content: str = "hello") -> dict[str, object]:
    return {"instance_id": instance, "message": {"role": "assistant", "content": content}}


async def _held_step(service: Supervised, instance: str, **meta: object) -> asyncio.Task[object]:
    """A step that waits in the box."""
    box = service.factory.home_of(instance)
    box.hold(Op.STEP)
    step = asyncio.create_task(service.call(Op.STEP, instance, _message(instance), **meta))
    await box.waiting.wait()
    return step


async def test_the_bytes_of_a_step_pass_through_unread() -> None:
    async with supervised() as service:
        instance = await service.create()
        raw = b'{"message":  {"content": "\\u00e9", "role": "assistant"}, "unheard_of": 1}'
        answer = await service.call(Op.STEP, instance, raw=raw)
        assert answer.op is Op.REPLY
        (event,) = [each for each in service.store.own_events[instance] if each.kind.value == "step"]
        assert (event.request, event.response) == (raw, answer.body)


async def test_every_operation_is_recorded_with_reward_timing_and_key() -> None:
    async with supervised() as service:
        instance = await service.create(task_id="echo-1", key="c")
        await service.step(instance, key="s")
        await service.evaluate(instance, key="e")
        await service.release(instance, key="r")
        events = service.store.own_events[instance]
        assert [event.kind.value for event in events] == ["create", "step", "evaluate", "release"]
        assert [event.idempotency_key for event in events] == ["c", "s", "e", "r"]
        assert [event.reward for event in events] == [None, 1.0, 1.0, None]
        assert [event.sequence for event in events] == [0, 1, 2, 3]
        assert set(events[1].timing_ms) == {"queue_ms", "route_ms", "run_ms"}


async def test_a_step_at_another_index_is_refused_and_runs_nothing() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance, "first", step_index=0)
        assert await service.refusal(Op.STEP, instance, _message(instance), step_index=0) is (
            ErrorCode.STEP_INDEX_MISMATCH
        )
        assert (await service.step(instance, "second", step_index=1))["step_index"] == 1


async def test_an_action_after_the_end_is_refused_and_the_instance_can_be_graded() -> None:
    async with supervised() as service:
        instance = await service.create(task_id="echo-1")
        await service.step(instance)
        assert await service.states() == {instance: "finished"}
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.INSTANCE_FINISHED
        assert (await service.evaluate(instance))["success"] is True


async def test_grading_does_not_disturb_the_episode() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.step(instance)
        assert (await service.evaluate(instance))["score"] == 0.1
        assert (await service.step(instance))["step_index"] == 1


@pytest.mark.parametrize("op", [Op.STEP, Op.EVALUATE, Op.FORK, Op.RELEASE, Op.FILE_READ, Op.TRAJECTORY])
async def test_an_unknown_instance_and_another_tenants_are_the_same(op: Op) -> None:
    async with supervised() as service:
        instance = await service.create()
        stranger = service.tenant_named("eve")
        body = {"instance_id": instance}
        first = await stranger.call(op, instance, body, path="x")
        second = await stranger.call(op, "s1.0", body, path="x")
        assert json.loads(first.body)["code"] == json.loads(second.body)["code"] == "unknown_instance"
        assert await stranger.states() == {}


async def test_two_operations_at_once_leave_one_busy() -> None:
    async with supervised() as service:
        instance = await service.create()
        step = await _held_step(service, instance)
        for op in (Op.STEP, Op.EVALUATE, Op.FORK):
            assert await service.refusal(op, instance, _message(instance)) is ErrorCode.INSTANCE_BUSY
        service.factory.home_of(instance).let_go(Op.STEP)
        assert (await step).op is Op.REPLY
        assert (await service.step(instance))["step_index"] == 1


async def test_the_same_key_joins_the_running_step() -> None:
    async with supervised() as service:
        instance = await service.create()
        step = await _held_step(service, instance, key="k")
        again = asyncio.create_task(service.call(Op.STEP, instance, _message(instance), key="k"))
        await settle()
        service.factory.home_of(instance).let_go(Op.STEP)
        first, second = await asyncio.gather(step, again)
        assert (first.op, first.body) == (second.op, second.body)
        assert first.request_id != second.request_id
        assert service.factory.executions(instance, "hello") == 1


async def test_a_key_gives_the_same_bytes_long_after_they_left_the_memory() -> None:
    async with supervised() as service:
        instance = await service.create(task_id="echo-endless")
        first = await service.call(Op.STEP, instance, _message(instance), key="k0")
        for number in range(1, 20):
            await service.step(instance, f"m{number}", key=f"k{number}")
        again = await service.call(Op.STEP, instance, _message(instance), key="k0", step_index=0)
        assert again.body == first.body
        assert set(again.meta) == set(first.meta)
        assert service.factory.executions(instance, "hello") == 1


async def test_a_key_stands_for_one_request_of_one_operation() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.call(Op.STEP, instance, _message(instance), key="k")
        other = _message(instance, "else")
        assert await service.refusal(Op.STEP, instance, other, key="k") is ErrorCode.IDEMPOTENCY_CONFLICT
        body = {"instance_id": instance}
        assert await service.refusal(Op.EVALUATE, instance, body, key="k") is ErrorCode.IDEMPOTENCY_CONFLICT


async def test_a_refused_call_leaves_its_key_free() -> None:
    async with supervised() as service:
        instance = await service.create()
        await service.refusal(Op.STEP, instance, _message(instance), key="k", step_index=7)
        assert (await service.step(instance, key="k", step_index=0))["step_index"] == 0


async def test_a_client_that_goes_away_in_mid_step_finds_the_result_under_its_key() -> None:
    async with supervised() as service:
        instance = await service.create()
        step = await _held_step(service, instance, key="k")
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        service.factory.home_of(instance).let_go(Op.STEP)
        answer = await service.call(Op.STEP, instance, _message(instance), key="k")
        assert json.loads(answer.body)["step_index"] == 0
        assert service.factory.executions(instance, "hello") == 1


async def test_a_request_may_ask_for_a_shorter_deadline_and_not_for_a_longer() -> None:
    async with supervised() as service:
        instance = await service.create()
        box = service.factory.home_of(instance)
        deadlines = []
        answer = box.runner.answer
        box.runner.answer = lambda frame: (deadlines.append(frame.meta["deadline_s"]), answer(frame))[1]
        for timeout_s in (0.5, 500.0):
            await service.step(instance, timeout_s=timeout_s)
        assert deadlines == [0.5, 5.0]


async def test_a_step_cut_at_its_deadline_is_no_step_of_a_deterministic_environment() -> None:
    async with supervised() as service:
        instance = await service.create("sheet")
        await service.step(instance, "one")
        box = service.factory.home_of(instance)
        box.runner.refuse[Op.STEP] = ("step_timeout", "killed at its deadline")
        first = await service.call(Op.STEP, instance, _message(instance), key="k")
        again = await service.call(Op.STEP, instance, _message(instance), key="k")
        assert json.loads(first.body)["code"] == "step_timeout"
        assert first.body == again.body
        box.runner.refuse.clear()
        assert (await service.step(instance, "two"))["step_index"] == 1
        statuses = [event.status for event in service.store.own_events[instance]]
        assert service.store.kinds(instance) == ["create", "step", "step", "replay", "step"]
        assert statuses[2] == 504


async def test_a_step_cut_at_its_deadline_loses_an_instance_that_cannot_be_rebuilt() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        service.factory.home_of(instance).runner.refuse[Op.STEP] = ("step_timeout", "killed")
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.STEP_TIMEOUT
        assert await service.refusal(Op.EVALUATE, instance, {}) is ErrorCode.INSTANCE_LOST
        assert service.store.kinds(instance) == ["create", "step", "lost"]
        assert all(event.reward is None for event in service.store.own_events[instance])


async def test_a_runner_that_is_late_costs_the_operation_and_no_neighbour() -> None:
    async with supervised(factory=FakeSandboxFactory(capacity=2)) as service:
        instance, neighbour = await service.create("diary"), await service.create("diary")
        box = service.factory.home_of(instance)
        box.hanging.add(Op.STEP)
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.STEP_TIMEOUT
        box.hanging.clear()
        assert (await service.step(neighbour))["step_index"] == 0
        assert service.factory.home_of(neighbour) is box
        assert await service.states() == {instance: "lost", neighbour: "active"}


async def test_a_runner_that_does_not_answer_a_ping_either_costs_the_box() -> None:
    async with supervised() as service:
        instance, neighbour = await service.create(), await service.create()
        box = service.factory.home_of(instance)
        box.hanging |= {Op.STEP, Op.PING}
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.STEP_TIMEOUT
        assert (await service.step(neighbour))["step_index"] == 0
        assert box.destroyed
        assert (await service.step(instance))["step_index"] == 0


async def test_a_grader_that_fails_is_no_score() -> None:
    async with supervised() as service:
        instance = await service.create()
        service.factory.home_of(instance).runner.refuse[Op.EVALUATE] = ("grader_failed", "no")
        body = {"instance_id": instance}
        assert await service.refusal(Op.EVALUATE, instance, body, key="k") is ErrorCode.GRADER_FAILED
        (event,) = [each for each in service.store.own_events[instance] if each.kind.value == "evaluate"]
        assert (event.status, event.reward) == (500, None)
        assert await service.states() == {instance: "active"}


async def test_exceptions_that_became_results_are_counted() -> None:
    async with supervised() as service:
        instance = await service.create()
        assert service.core.stats().world_exceptions == {}
        service.factory.home_of(instance).runner.exception = "KeyError"
        await service.step(instance)
        await service.ask(Op.EVALUATE, instance, {"instance_id": instance})
        assert service.core.stats().world_exceptions == {"echo": 2}


async def test_a_full_store_fails_the_operation_and_loses_nothing() -> None:
    store = MemoryTrajectoryStore()
    async with supervised(store=store) as service:
        instance = await service.create()
        store.room = 0
        assert await service.refusal(Op.STEP, instance, _message(instance), key="k") is ErrorCode.STORAGE_FULL
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.STORAGE_FULL
        assert service.factory.executions(instance, "hello") == 1
        store.room, store.full = None, False
        answer = await service.call(Op.STEP, instance, _message(instance), key="k")
        assert json.loads(answer.body)["step_index"] == 0
        assert service.factory.executions(instance, "hello") == 1
        assert store.kinds(instance) == ["create", "step"]


async def test_nothing_is_executed_while_the_store_is_known_to_take_nothing() -> None:
    async with supervised() as service:
        instance = await service.create()
        service.store.full = True
        assert await service.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.STORAGE_FULL
        body = {"environment": "echo", "task_id": "echo-10"}
        assert await service.refusal(Op.CREATE, "", body) is ErrorCode.STORAGE_FULL
        assert service.factory.executions(instance, "hello") == 0
        assert not service.core.stats().storing
        service.store.full = False
        assert service.core.stats().storing
        assert (await service.step(instance))["step_index"] == 0


async def test_files_are_written_listed_and_read() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.call(Op.FILE_WRITE, instance, raw=b"\x00data", path="a/b")
        listed = await service.ask(Op.FILE_LIST, instance, path=".")
        read = await service.call(Op.FILE_READ, instance, path="a/b", max_bytes=100)
        assert listed == [{"path": "a/b", "size": 5, "is_directory": False}]
        assert read.body == b"\x00data"
        assert await service.refusal(Op.FILE_READ, instance, path="c") is ErrorCode.FILE_NOT_FOUND


async def test_an_environment_without_agent_code_has_no_files() -> None:
    async with supervised() as service:
        instance = await service.create("echo")
        assert await service.refusal(Op.FILE_READ, instance, path="x") is ErrorCode.FILES_UNSUPPORTED


async def test_a_fault_of_ours_is_an_internal_error_without_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with supervised() as service:
        instance = await service.create()
        box = service.factory.home_of(instance)

        def broken(frame: object) -> None:
            raise RuntimeError("secret path")

        monkeypatch.setattr(box.runner, "answer", broken)
        with pytest.raises(ServiceError) as failure:
            await service.step(instance)
        assert failure.value.code is ErrorCode.INTERNAL
        assert "secret" not in failure.value.detail
        monkeypatch.undo()
        await service.step(instance)


async def test_a_task_that_asks_for_time_is_graded_within_it() -> None:
    async with supervised() as service:
        instance = await service.create("exam")
        service.factory.home_of(instance).hanging.add(Op.EVALUATE)
        answer = await service.call(Op.EVALUATE, instance, {"instance_id": instance})
        assert "no answer within 930 s" in error_of(answer).detail


async def test_other_tasks_are_graded_within_the_services_deadline() -> None:
    async with supervised() as service:
        instance = await service.create()
        service.factory.home_of(instance).hanging.add(Op.EVALUATE)
        answer = await service.call(Op.EVALUATE, instance, {"instance_id": instance})
        assert "no answer within 35 s" in error_of(answer).detail


@pytest.mark.parametrize(
    ("op", "fields", "code"),
    [
        (Op.EVALUATE, {"params": {"note": "x" * 200}}, ErrorCode.TASK_INVALID),
        (Op.RUN_AGENT, {"command": ["echo", "x" * 200]}, ErrorCode.BODY_TOO_LARGE),
    ],
)
async def test_a_request_that_is_too_large_for_its_box_costs_no_instance_of_the_box(
    op: Op, fields: dict[str, object], code: ErrorCode
) -> None:
    async with supervised(factory=FakeSandboxFactory(capacity=2)) as service:
        instance, neighbour = [await service.create("diary", "echo-1") for _ in range(2)]
        (box,) = service.factory.alive
        box.largest_body = 200
        assert await service.refusal(op, instance, {"instance_id": instance, **fields}) is code
        assert service.factory.alive == [box]
        assert await service.states() == {instance: "active", neighbour: "active"}
        for each in (instance, neighbour):
            await service.step(each)
            assert (await service.evaluate(each))["success"] is True
