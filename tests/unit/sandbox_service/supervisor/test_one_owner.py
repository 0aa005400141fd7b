"""Supervisors over one database: an instance has one owner, whatever each believes of the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_contract.inspection import Instances
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Frame, Op
from tests.contract.store_ownership import end_lease
from tests.harness.shared_store import Nodes, nodes_of_one_database
from tests.harness.waiting import until


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with nodes_of_one_database(tmp_path) as start:
        yield start


async def test_a_create_is_answered_elsewhere_once_the_lease_of_its_supervisor_has_run_out(
    nodes: Nodes,
) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    body = {"environment": "echo", "task_id": "echo-10"}
    instance = await first.service.create(key="done")

    async def create(key: str) -> Frame:
        return await second.service.call(Op.CREATE, "", body, key=key, take_over_from="s1")

    assert error_of(await create("new")).code is ErrorCode.SUPERVISOR_UNAVAILABLE
    end_lease(second.url, "s1")
    second.service.clock.advance(1)
    assert json.loads((await create("done")).body)["instance_id"] == instance
    created = json.loads((await create("new")).body)["instance_id"]
    assert created.startswith("s2.")
    # The former supervisor may still be at work on it, and can record nothing.
    assert await first.service.refusal(Op.CREATE, "", body, key="late") is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_a_create_is_executed_once_though_its_supervisor_returns_meanwhile(nodes: Nodes) -> None:
    await nodes("s1")
    new_owner, third = await nodes("s2"), await nodes("s3")
    body = {"environment": "echo", "task_id": "echo-10"}
    end_lease(new_owner.url, "s1")
    factory = new_owner.service.factory
    factory.gate = asyncio.Event()
    first = asyncio.create_task(new_owner.service.call(Op.CREATE, "", body, key="k", take_over_from="s1"))
    await until(lambda: factory.attempts)
    again = await nodes("s1")
    for other in (again, third):
        moved = await other.service.call(Op.CREATE, "", body, key="k")
        assert moved.meta["owner"] == "s2"
    joined = asyncio.create_task(new_owner.service.call(Op.CREATE, "", body, key="k"))
    assert (await again.service.create(key="other")).startswith("s1.")
    factory.gate.set()
    created = json.loads((await first).body)["instance_id"]
    assert created.startswith("s2.")
    assert json.loads((await joined).body)["instance_id"] == created
    assert await again.service.create(key="k") == await third.service.create(key="k") == created


async def test_a_create_of_a_new_owner_that_died_is_executed_by_its_own_supervisor(nodes: Nodes) -> None:
    await nodes("s1")
    new_owner = await nodes("s2")
    body = {"environment": "echo", "task_id": "echo-10"}
    end_lease(new_owner.url, "s1")
    new_owner.service.factory.gate = asyncio.Event()
    first = asyncio.create_task(new_owner.service.call(Op.CREATE, "", body, key="k", take_over_from="s1"))
    await until(lambda: new_owner.service.factory.attempts)
    again = await nodes("s1")
    end_lease(new_owner.url, "s2")
    # As an instance, it is left to its holder until a gateway misses that one.
    assert (await again.service.call(Op.CREATE, "", body, key="k")).meta["owner"] == "s2"
    taken = await again.service.call(Op.CREATE, "", body, key="k", take_over_from="s2", moved_from="s1")
    created = json.loads(taken.body)["instance_id"]
    assert created.startswith("s1.")
    # The new owner was alive after all: nothing of it is recorded.
    new_owner.service.factory.gate.set()
    assert error_of(await first).code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert await again.service.create(key="k") == created


async def test_a_create_is_executed_though_its_supervisor_and_its_new_owner_are_gone(
    nodes: Nodes,
) -> None:
    await nodes("s1")
    new_owner, third = await nodes("s2"), await nodes("s3")
    body = {"environment": "echo", "task_id": "echo-10"}
    end_lease(new_owner.url, "s1")
    new_owner.service.factory.gate = asyncio.Event()
    first = asyncio.create_task(new_owner.service.call(Op.CREATE, "", body, key="k", take_over_from="s1"))
    await until(lambda: new_owner.service.factory.attempts)
    moved = await third.service.call(Op.CREATE, "", body, key="k", take_over_from="s1")
    assert moved.meta["owner"] == "s2"
    gone = {"take_over_from": "s2", "moved_from": "s1"}
    held = await third.service.refusal(Op.CREATE, "", body, key="k", **gone)
    assert held is ErrorCode.SUPERVISOR_UNAVAILABLE
    end_lease(new_owner.url, "s2")
    third.service.clock.advance(1)
    taken = await third.service.call(Op.CREATE, "", body, key="k", **gone)
    assert json.loads(taken.body)["instance_id"].startswith("s3.")
    new_owner.service.factory.gate.set()
    assert error_of(await first).code is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_a_claim_that_could_not_be_completed_is_ended(nodes: Nodes) -> None:
    first, restarted, third = await nodes("s1"), await nodes("s2"), await nodes("s3")
    body = {"environment": "echo", "task_id": "echo-10"}
    end_lease(first.url, "s1")
    gone = {"take_over_from": "s2", "moved_from": "s1"}
    held = await third.service.refusal(Op.CREATE, "", body, key="k", **gone)
    assert held is ErrorCode.SUPERVISOR_UNAVAILABLE
    again = await nodes("s1")
    created = await again.service.call(Op.CREATE, "", body, key="k", take_over_from="s2", moved_from="s1")
    assert json.loads(created.body)["instance_id"].startswith("s1.")
    assert await restarted.service.create(key="k") == json.loads(created.body)["instance_id"]


async def test_a_create_that_was_passed_on_is_executed_only_by_who_is_at_work_on_it(
    nodes: Nodes,
) -> None:
    first, restarted, third = await nodes("s1"), await nodes("s2"), await nodes("s3")
    body = {"environment": "echo", "task_id": "echo-10"}
    back = await restarted.service.call(Op.CREATE, "", body, key="k", moved_from="s1")
    assert back.meta["owner"] == "s1"
    end_lease(first.url, "s2")
    # The gateway of this one reaches neither; the responsible one lives, and may have begun.
    held = await third.service.refusal(Op.CREATE, "", body, key="k", take_over_from="s2", moved_from="s1")
    assert held is ErrorCode.SUPERVISOR_UNAVAILABLE
    done = await first.service.call(Op.CREATE, "", body, key="k", moved_from="s1")
    assert json.loads(done.body)["instance_id"].startswith("s1.")


async def test_a_claim_that_could_not_be_ended_keeps_the_create_where_it_is(
    nodes: Nodes, monkeypatch
) -> None:
    await nodes("s1")
    new_owner = await nodes("s2")
    body = {"environment": "echo", "task_id": "echo-10"}
    end_lease(new_owner.url, "s1")

    async def refuse(tenant: str, key: str) -> None:
        raise ServiceError(ErrorCode.STORAGE_FULL, "away")

    monkeypatch.setattr(new_owner.store, "end_create_claim", refuse)
    await new_owner.service.refusal(
        Op.CREATE, "", {**body, "task_id": "unknown"}, key="k", take_over_from="s1"
    )
    done = await new_owner.service.call(Op.CREATE, "", body, key="recorded", take_over_from="s1")
    again = await nodes("s1")
    assert (await again.service.call(Op.CREATE, "", body, key="k")).meta["owner"] == "s2"
    assert (await new_owner.service.create(key="k")).startswith("s2.")
    assert await again.service.create(key="recorded") == json.loads(done.body)["instance_id"]


async def test_a_create_that_failed_in_anothers_place_may_be_executed_again(nodes: Nodes) -> None:
    await nodes("s1")
    new_owner = await nodes("s2")
    end_lease(new_owner.url, "s1")
    body = {"environment": "echo", "task_id": "unknown"}
    await new_owner.service.refusal(Op.CREATE, "", body, key="k", take_over_from="s1")
    assert new_owner.store.is_shared()
    again = await nodes("s1")
    assert (await again.service.create(key="k")).startswith("s1.")


async def test_a_create_of_another_supervisor_is_refused_without_a_shared_store(nodes: Nodes) -> None:
    alone = await nodes("s1")
    body = {"environment": "echo", "task_id": "echo-10"}
    refused = await alone.service.refusal(Op.CREATE, "", body, key="k", take_over_from="s2")
    assert refused is ErrorCode.SUPERVISOR_UNAVAILABLE


async def test_a_create_is_left_to_a_supervisor_that_the_store_never_knew(nodes: Nodes) -> None:
    # A store with two names counts as shared, and may still be the file of one node.
    await nodes("former name")
    alone = await nodes("s1")
    body = {"environment": "echo", "task_id": "echo-10"}
    refused = await alone.service.refusal(Op.CREATE, "", body, key="k", take_over_from="elsewhere")
    assert refused is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert await alone.service.states() == {}


async def test_an_instance_is_left_to_its_supervisor_while_the_lease_of_that_one_holds(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    answer = await second.ask(Op.STEP, instance, take_over_from="s1")
    error = error_of(answer)
    assert error.code is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert error.retry_after_s == pytest.approx(600, abs=60)
    assert (await first.service.step(instance))["step_index"] == 0


async def test_a_supervisor_that_is_cut_off_answers_nothing_once_another_goes_on(nodes: Nodes) -> None:
    """Both live and reach the database; only the gateway of the second believes the first to be dead."""
    first, second = await nodes("s1"), await nodes("s2")
    instance, other = await first.service.create(), await first.service.create()
    await first.service.step(instance, "one")
    end_lease(first.url, "s1")
    assert (await second.service.step(instance, "two", take_over_from="s1", step_index=1))["step_index"] == 1
    for op in (Op.STEP, Op.EVALUATE, Op.RELEASE):
        assert await first.refusal(op, instance) is ErrorCode.SUPERVISOR_UNAVAILABLE
    # The whole process has lost its right, not only that instance.
    assert await first.refusal(Op.STEP, other) is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert (await second.service.step(instance, "three"))["step_index"] == 2
    assert (await second.service.step(other, take_over_from="s1"))["step_index"] == 0
    await asyncio.wait_for(first.service.core.wait_fenced(), 5)
    kinds = [event.kind.value for event in await second.store.events(instance)]
    assert kinds == ["create", "step", "recover", "replay", "step", "step"]


async def test_a_supervisor_whose_lease_cannot_be_renewed_answers_nothing(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    await second.service.step(instance, take_over_from="s1")
    # It has written nothing since, so it learns of it when its own clock says that the lease is over.
    first.service.clock.advance(601)
    assert await first.refusal(Op.FILE_LIST, instance) is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert await first.refusal(Op.CREATE, "") is ErrorCode.SUPERVISOR_UNAVAILABLE
    assert (await first.service.call(Op.STATS)).op is Op.REPLY


async def test_a_lease_that_ran_out_unnoticed_costs_nothing(nodes: Nodes) -> None:
    first = await nodes("s1")
    instance = await first.service.create()
    first.service.clock.advance(200)
    end_lease(first.url, "s1")
    first.service.clock.advance(450)
    assert (await first.service.step(instance))["step_index"] == 0


async def test_of_two_supervisors_that_are_asked_at_once_one_takes_an_instance_over(nodes: Nodes) -> None:
    first, *others = [await nodes(name) for name in ("s1", "s2", "s3")]
    ids = [await first.service.create() for _ in range(2)]
    end_lease(first.url, "s1")
    for instance in ids:
        answers = await asyncio.gather(*(each.ask(Op.STEP, instance, take_over_from="s1") for each in others))
        assert sorted(answer.op.name for answer in answers) == ["ERROR", "REPLY"]
        refused = next(answer for answer in answers if answer.op is Op.ERROR)
        new_owner = next(
            each.name for each, answer in zip(others, answers, strict=True) if answer.op is Op.REPLY
        )
        assert refused.meta == {"owner": new_owner}
        steps = [each for each in await first.store.events(instance) if each.kind.value == "step"]
        assert len(steps) == 1


async def test_an_instance_that_is_taken_over_is_as_old_as_it_was(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    second.service.clock.advance(30)
    await second.service.step(instance, take_over_from="s1")
    (status,) = (await second.service.ask(Op.INSTANCES, instance))["instances"]
    assert (status["supervisor"], status["age_s"]) == ("s2", 30.0)


@pytest.mark.parametrize("believed", ["s1", ""])
async def test_a_gateway_that_names_a_former_owner_learns_who_has_the_instance(
    nodes: Nodes, believed: str
) -> None:
    first, second, third = [await nodes(name) for name in ("s1", "s2", "s3")]
    instance = await first.service.create()
    end_lease(first.url, "s1")
    await second.service.step(instance, take_over_from="s1")
    for op in (Op.STEP, Op.EVALUATE, Op.RELEASE):
        answer = await third.ask(op, instance, take_over_from=believed)
        assert (answer.op, answer.meta) == (Op.ERROR, {"owner": "s2"})
    # Also once the new owner's lease has run out: this gateway has not found that one dead.
    end_lease(first.url, "s2")
    assert (await third.ask(Op.STEP, instance, take_over_from=believed)).meta == {"owner": "s2"}
    assert (await third.service.step(instance, take_over_from="s2"))["step_index"] == 1


async def test_what_cannot_be_rebuilt_is_lost_as_soon_as_the_first_call_finds_the_owner_dead(
    nodes: Nodes,
) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    lost, unasked = await first.service.create("diary"), await first.service.create("diary")
    end_lease(first.url, "s1")
    assert await second.refusal(Op.EVALUATE, lost, take_over_from="s1") is ErrorCode.INSTANCE_LOST
    await until(lambda: unasked in second.service.core.table)
    assert [event.kind.value for event in await second.store.events(unasked)] == ["create", "lost"]


async def test_a_supervisor_that_comes_back_names_the_new_owners_of_its_instances(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    await second.service.step(instance, take_over_from="s1")
    again = await nodes("s1")
    answer = await again.ask(Op.STEP, instance)
    assert (answer.op, answer.meta) == (Op.ERROR, {"owner": "s2"})
    assert (await second.service.step(instance))["step_index"] == 1


async def test_the_status_of_an_instance_that_moved_is_its_owners_and_nobodys_is_on_record(
    nodes: Nodes,
) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    await first.service.step(instance, "one")
    await first.service.core.begin_drain(move=True)
    await until(lambda: instance not in first.service.core.table)
    for node in (first, second):
        reply = await node.service.call(Op.INSTANCES, instance)
        (status,) = Instances.model_validate_json(reply.body).instances
        assert (status.state, status.step_index, status.supervisor) == ("active", 1, "")
        assert reply.meta == {"recorded": True}
    assert len(second.service.core.table) == 0, "a look takes nothing over"
    await second.service.step(instance, "two", take_over_from="")
    moved = await first.service.call(Op.INSTANCES, instance)
    assert (moved.op, moved.meta) == (Op.ERROR, {"owner": "s2"})
    stranger = first.service.tenant_named("eve")
    assert await stranger.refusal(Op.INSTANCES, instance) is ErrorCode.UNKNOWN_INSTANCE


async def test_the_status_of_an_instance_whose_owner_is_not_reached_is_on_record(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create(task_id="echo-1")
    await first.service.step(instance, "hello")
    reply = await second.service.call(Op.INSTANCES, instance, take_over_from="s1")
    (status,) = Instances.model_validate_json(reply.body).instances
    assert (status.state, status.step_index, status.supervisor) == ("finished", 1, "s1")
    assert instance in first.service.core.table


async def test_a_draining_supervisor_hands_over_what_can_be_rebuilt_and_keeps_the_rest(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    moved, kept = await first.service.create(), await first.service.create("diary")
    await first.service.step(moved, "one", key="k")
    await first.service.core.begin_drain(move=True)
    # The call arrives while the handover runs, and waits for its end.
    answer = await first.ask(Op.STEP, moved)
    assert (answer.op, answer.meta) == (Op.ERROR, {"owner": ""})
    assert (await second.service.step(moved, "two", take_over_from=""))["step_index"] == 1
    repeated = await second.ask(Op.STEP, moved, "one", key="k")
    assert repeated.op is Op.REPLY
    assert (await first.service.step(kept))["step_index"] == 0
    assert await first.refusal(Op.CREATE, "") is ErrorCode.DRAINING
    assert await first.refusal(Op.STEP, moved, take_over_from="s2") is ErrorCode.DRAINING
    assert len(first.service.core.table) == 1


async def test_a_running_operation_ends_where_it_began_and_the_instance_moves_afterwards(
    nodes: Nodes,
) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    step = asyncio.create_task(first.service.step(instance))
    await asyncio.sleep(0)
    await first.service.core.begin_drain(move=True)
    assert (await step)["step_index"] == 0
    first.service.core.tick()
    assert (await first.ask(Op.STEP, instance)).meta == {"owner": ""}
    assert (await second.service.step(instance, take_over_from=""))["step_index"] == 1


async def test_a_draining_supervisor_takes_nothing_over_until_the_drain_is_cancelled(nodes: Nodes) -> None:
    first, second = await nodes("s1"), await nodes("s2")
    instance = await first.service.create()
    end_lease(first.url, "s1")
    await second.service.core.begin_drain(move=True)
    assert await second.refusal(Op.STEP, instance, take_over_from="s1") is ErrorCode.DRAINING
    await second.service.core.cancel_drain()
    assert (await second.service.step(instance, take_over_from="s1"))["step_index"] == 0


@pytest.mark.parametrize("code", [ErrorCode.IMAGE_MISSING, ErrorCode.STORAGE_FULL])
async def test_a_create_that_went_on_to_another_node_is_executed_once(nodes: Nodes, code: ErrorCode) -> None:
    lacking, other = await nodes("a"), await nodes("b")
    factory = lacking.service.factory
    factory.failing = ServiceError(code, "no image, or no room for it")
    body = {"environment": "echo", "task_id": "echo-10"}
    refusal = error_of(await lacking.service.call(Op.CREATE, "", body, key="k"))
    assert refusal.code is code
    assert is_of_node(refusal)
    created = await other.service.create(key="k")
    factory.failing = None
    assert await lacking.service.create(key="k") == created, "the repetition asks the first node again"
    assert await lacking.service.states() == {}
