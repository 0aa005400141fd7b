"""An instance that may lack answered steps serves only those who show that they know its state."""

from __future__ import annotations

import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.trajectories.records import EventKind
from sandbox_service.wire.frames import Op
from tests.fakes.clock import FakeClock
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, fake_config, killed


def _message(instance: str, content: str = "hello") -> dict[str, object]:
    return {"instance_id": instance, "message": {"role": "assistant", "content": content}}


async def _begun(*, complete: bool) -> Supervised:
    store = MemoryTrajectoryStore()
    store.complete = complete
    service = Supervised(fake_config(), FakeSandboxFactory(), store, FakeClock())
    await service.core.start()
    return service


@pytest.mark.parametrize("op", [Op.STEP, Op.EVALUATE, Op.FORK])
async def test_a_client_that_does_not_count_steps_gets_an_error_and_never_a_state_that_lacks_one(
    op: Op,
) -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    for _ in range(3):
        await service.step(instance)
    restarted = await killed(service, lost=1)
    for _ in range(3):
        assert await restarted.refusal(op, instance, _message(instance)) is ErrorCode.INSTANCE_RECOVERED
    assert await restarted.release(instance) is True
    await restarted.core.close()


async def test_a_client_that_counts_steps_learns_from_the_error_that_steps_are_lost() -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    for _ in range(3):
        await service.step(instance)
    restarted = await killed(service, lost=1)
    answer = await restarted.call(Op.STEP, instance, _message(instance), step_index=3)
    body = json.loads(answer.body)
    assert body["code"] == "instance_recovered"
    assert "recovered at step 2" in body["detail"]
    await restarted.core.close()


async def test_a_client_that_shows_that_nothing_is_lost_goes_on_and_need_not_show_it_again() -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    await service.step(instance)
    restarted = await killed(service)
    assert (await restarted.step(instance, step_index=1))["step_index"] == 1
    assert (await restarted.step(instance))["step_index"] == 2
    assert (await restarted.evaluate(instance))["score"] == 0.3
    await restarted.core.close()


async def test_an_older_step_under_a_new_key_is_a_mismatch_and_settles_nothing() -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    for _ in range(2):
        await service.step(instance)
    restarted = await killed(service)
    assert await restarted.refusal(Op.STEP, instance, _message(instance), step_index=0) is (
        ErrorCode.STEP_INDEX_MISMATCH
    )
    assert await restarted.refusal(Op.EVALUATE, instance, {}) is ErrorCode.INSTANCE_RECOVERED
    await restarted.core.close()


async def test_a_repeated_call_has_its_recorded_answer_all_the_same() -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    first = await service.call(Op.STEP, instance, _message(instance), key="k")
    restarted = await killed(service)
    again = await restarted.call(Op.STEP, instance, _message(instance), key="k")
    assert again.body == first.body
    await restarted.core.close()


async def test_a_doubt_outlives_further_restarts_until_a_step_settles_it() -> None:
    service = await _begun(complete=False)
    settled, open_ = await service.create(), await service.create()
    for instance in (settled, open_):
        await service.step(instance)
    service.store.complete = True
    restarted = await killed(service)
    await restarted.step(settled, step_index=1)
    await restarted.core.close()
    last = await killed(restarted)
    assert (await last.step(settled))["step_index"] == 2
    assert await last.refusal(Op.STEP, open_, _message(open_)) is ErrorCode.INSTANCE_RECOVERED
    await last.core.close()


@pytest.mark.parametrize("in_order", [False, True])
async def test_nothing_is_in_doubt_after_an_end_in_order_or_with_answers_that_waited(in_order: bool) -> None:
    service = await _begun(complete=not in_order)
    instance = await service.create()
    await service.step(instance)
    if in_order:
        await service.core.close()
    restarted = await killed(service)
    assert (await restarted.step(instance))["step_index"] == 1
    assert service.store.kinds(instance) == ["create", "step", "replay", "step"]
    await restarted.core.close()


async def test_a_supervisor_that_could_not_write_its_last_records_did_not_end_in_order() -> None:
    service = await _begun(complete=False)
    instance = await service.create()
    await service.step(instance)
    service.store.room = 0
    await service.refusal(Op.STEP, instance, _message(instance))
    await _closed_in_vain(service)
    service.store.room, service.store.full = None, False
    restarted = await killed(service)
    assert await restarted.refusal(Op.STEP, instance, _message(instance)) is ErrorCode.INSTANCE_RECOVERED
    await restarted.core.close()


async def _closed_in_vain(service: Supervised) -> None:
    with pytest.raises(Exception, match="storage"):
        await service.core.close()


async def test_a_takeover_names_the_new_owner_whose_death_counts_from_then_on() -> None:
    store, factory = MemoryTrajectoryStore(), FakeSandboxFactory()
    service = Supervised(fake_config(), factory, store, FakeClock())
    await service.core.start()
    instance = await service.create()
    record = store.records[instance]
    store.records[instance] = type(record)(
        instance, record.environment, record.task_id, record.tenant, "dead", record.created_at, record.seed
    )
    await service.core.maintenance.stop()
    store.lives["dead"] = "complete"
    store.complete = False
    new_owner = Supervised(fake_config(), factory, store, FakeClock())
    await new_owner.core.start()
    assert (await new_owner.step(instance, take_over_from="dead"))["step_index"] == 0
    recover = next(event for event in store.own_events[instance] if event.kind.value == "recover")
    assert json.loads(recover.response) == {"supervisor": "s1", "complete": True}
    again = await killed(new_owner)
    message = _message(instance)
    assert (
        await again.refusal(Op.STEP, instance, message, take_over_from="s1") is ErrorCode.INSTANCE_RECOVERED
    )
    await again.core.close()


async def test_a_supervisor_that_returns_doubts_what_another_had_and_left_incomplete() -> None:
    first = await _begun(complete=True)
    store, instance = first.store, await first.create()
    await first.core.maintenance.stop()
    store.complete = False
    new_owner = Supervised(fake_config(), first.factory, store, first.clock, "s2")
    await new_owner.core.start()
    await new_owner.step(instance, take_over_from="s1")
    await new_owner.core.maintenance.stop()
    assert store.own_events[instance].pop().kind is EventKind.STEP
    returned = await killed(first)
    message = _message(instance)
    assert await returned.refusal(Op.STEP, instance, message) is ErrorCode.UNKNOWN_INSTANCE
    assert (
        await returned.refusal(Op.STEP, instance, message, take_over_from="s2")
        is ErrorCode.INSTANCE_RECOVERED
    )
    recover = [each for each in store.own_events[instance] if each.kind is EventKind.RECOVER]
    assert [json.loads(each.response)["supervisor"] for each in recover] == ["s2", "s1"]
    await returned.core.close()
