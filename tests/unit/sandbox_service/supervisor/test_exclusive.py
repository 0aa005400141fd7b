"""A key stands for one operation on one target with one body, and for its first answer for ever."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import StoreConfig
from sandbox_service.stream.failures import error_of
from sandbox_service.supervisor.idempotency import KeyCache
from sandbox_service.trajectories.records import EventRecord
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, fake_config, supervised
from tests.harness.waiting import settle, until

_CREATE = {"environment": "echo", "task_id": "echo-10"}


def _message(instance: str, content: str = "hello") -> dict[str, object]:
    return {"instance_id": instance, "message": {"role": "assistant", "content": content}}


async def _restarted(service: Supervised, **branches: object) -> Supervised:
    """The next supervisor of the same name, after the first was killed."""
    await service.core.maintenance.stop()
    restarted = Supervised(fake_config(**branches), service.factory, service.store, service.clock)
    await restarted.core.start()
    return restarted


async def _begun(**branches: object) -> Supervised:
    service = Supervised(fake_config(**branches), FakeSandboxFactory(), MemoryTrajectoryStore(), FakeClock())
    await service.core.start()
    return service


@pytest.mark.parametrize("ended", [False, True])
async def test_a_create_that_is_repeated_after_a_restart_is_answered_to_who_asks(ended: bool) -> None:
    service = await _begun()
    first = await service.call(Op.CREATE, "", _CREATE, key="c")
    if ended:
        await service.release(first.instance_id)
    restarted = await _restarted(service)
    for number in (41, 42):
        frame = Frame(Op.CREATE, number, "", {"tenant": "ada", "key": "c"}, json.dumps(_CREATE).encode())
        again = await restarted.core.handle(frame)
        assert (again.op, again.request_id, again.body) == (Op.REPLY, number, first.body)
    await restarted.core.close()


async def test_a_create_is_known_by_its_key_as_long_as_its_record_lives() -> None:
    service = await _begun()
    first = await service.create(key="c")
    restarted = await _restarted(service)
    restarted.pass_time(1_000_000)
    assert await restarted.create(key="c") == first
    await restarted.core.close()


@pytest.mark.parametrize("path", ["b.txt", "a.txt/deeper"])
async def test_a_write_to_another_path_under_a_used_key_is_a_conflict(path: str) -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.call(Op.FILE_WRITE, instance, raw=b"x", path="a.txt", key="k")
        answer = await service.call(Op.FILE_WRITE, instance, raw=b"x", path=path, key="k")
        assert json.loads(answer.body)["code"] == "idempotency_conflict"


async def test_a_repeated_write_has_its_answer_however_many_keys_came_since() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        first = await service.call(Op.FILE_WRITE, instance, raw=b"x", path="c.txt", key="w")
        for number in range(6):
            await service.call(Op.FILE_WRITE, instance, raw=b"y", path="d.txt", key=f"k{number}")
        again = await service.call(Op.FILE_WRITE, instance, raw=b"x", path="c.txt", key="w")
        assert (again.op, again.body) == (Op.REPLY, first.body)
        assert service.store.kinds(instance) == ["create", *["write_file"] * 7]


async def test_a_write_is_recorded_by_path_and_fingerprint_and_not_by_content() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        await service.call(Op.FILE_WRITE, instance, raw=b"secret" * 100_000, path="a")
        (event,) = [each for each in service.store.own_events[instance] if each.kind.value == "write_file"]
        request = json.loads(event.request)
        assert (request["path"], request["size"]) == ("a", 600_000)
        assert len(event.request) < 200


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Op.EVALUATE, Op.FORK),
        (Op.FORK, Op.EVALUATE),
        (Op.STEP, Op.EVALUATE),
        (Op.EVALUATE, Op.RELEASE),
        (Op.STEP, Op.FILE_WRITE),
    ],
)
async def test_a_key_of_one_operation_is_no_key_of_another(first: Op, second: Op) -> None:
    async with supervised() as service:
        instance = await service.create()
        body = _message(instance) if first is Op.STEP else {"instance_id": instance}
        await service.ask(first, instance, body, key="k")
        assert await service.refusal(second, instance, body, path="a", key="k") is (
            ErrorCode.IDEMPOTENCY_CONFLICT
        )
        await service.release(instance)
        assert await service.refusal(second, instance, body, path="a", key="k") is (
            ErrorCode.IDEMPOTENCY_CONFLICT
        )


@pytest.mark.parametrize("restart", [False, True])
async def test_the_key_of_a_create_is_free_on_its_instance_and_answered_there_for_ever(restart: bool) -> None:
    service = await _begun()
    instance = await service.create(task_id="echo-endless", key="k")
    if restart:
        service = await _restarted(service)
    first = await service.call(Op.STEP, instance, _message(instance), key="k")
    assert first.op is Op.REPLY
    for number in range(6):
        await service.step(instance, key=f"k{number}")
    assert (await service.call(Op.STEP, instance, _message(instance), key="k")).body == first.body
    await service.release(instance)
    assert (await service.call(Op.STEP, instance, _message(instance), key="k")).body == first.body
    await service.core.close()


@pytest.mark.parametrize("restart", [False, True])
async def test_an_instance_is_released_under_the_key_of_its_create(restart: bool) -> None:
    service = await _begun()
    instance = await service.create(key="k")
    if restart:
        service = await _restarted(service)
    service.core.table.by_id(instance).keys.evicted = True
    assert (await service.call(Op.RELEASE, instance, {"instance_id": instance}, key="k")).op is Op.REPLY
    await service.core.close()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("op", [Op.STEP, Op.EVALUATE, Op.FORK, Op.RELEASE, Op.FILE_WRITE])
async def test_a_key_has_the_same_bytes_after_the_instance_ended(op: Op, restart: bool) -> None:
    service = await _begun()
    instance = await service.create("diary" if op is Op.FILE_WRITE else "echo")
    body = _message(instance) if op is Op.STEP else {"instance_id": instance}
    first = await service.call(op, instance, body, path="a", key="k")
    assert first.op is Op.REPLY
    if op is not Op.RELEASE:
        await service.release(instance)
    now = await _restarted(service) if restart else service
    again = await now.call(op, instance, body, path="a", key="k")
    assert (again.op, again.body) == (Op.REPLY, first.body)
    assert await now.refusal(Op.STEP, instance, _message(instance), key="new") is (
        ErrorCode.INSTANCE_RELEASED
    )
    stranger = now.tenant_named("eve")
    assert await stranger.refusal(op, instance, body, path="a", key="k") is ErrorCode.UNKNOWN_INSTANCE
    await now.core.close()


async def test_an_instance_with_more_keys_than_it_remembers_runs_none_of_them_twice() -> None:
    async with supervised() as service:
        instance = await service.create(task_id="echo-endless")
        service.core.table.by_id(instance).keys = KeyCache(service.core.answers, keys=3)
        first = await service.call(Op.STEP, instance, _message(instance, "once"), key="k0")
        for number in range(1, 8):
            await service.step(instance, f"m{number}", key=f"k{number}")
        again = await service.call(Op.STEP, instance, _message(instance, "once"), key="k0")
        assert again.body == first.body
        assert service.factory.executions(instance, "once") == 1
        other = _message(instance, "else")
        assert await service.refusal(Op.STEP, instance, other, key="k0") is ErrorCode.IDEMPOTENCY_CONFLICT


class _SlowStore(MemoryTrajectoryStore):
    """Looks for keys until a test lets it answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def event_of_key(self, tenant: str, public_id: str, key: str) -> EventRecord | None:
        found = await super().event_of_key(tenant, public_id, key)
        self.asked.set()
        await self.may_answer.wait()
        return found


async def _asked_for_an_old_key(service: Supervised, op: Op) -> tuple[str, asyncio.Task[Frame]]:
    """An instance, and a call under a new key that waits for the store, since older keys were dropped."""
    assert isinstance(service.store, _SlowStore)
    instance = await service.create(task_id="echo-endless")
    service.core.table.by_id(instance).keys = KeyCache(service.core.answers, keys=1)
    for number in range(2):
        service.store.may_answer.set()
        await service.step(instance, f"m{number}", key=f"k{number}")
    service.store.may_answer.clear()
    service.store.asked.clear()
    body = _message(instance, "late") if op is Op.STEP else {"instance_id": instance}
    call = asyncio.create_task(service.call(op, instance, body, key="new"))
    await service.store.asked.wait()
    return instance, call


@pytest.mark.parametrize("op", [Op.STEP, Op.RELEASE])
async def test_nothing_is_done_to_an_instance_that_is_handed_over_while_the_key_is_looked_for(op: Op) -> None:
    store = _SlowStore()
    async with supervised(store=store) as service:
        instance, call = await _asked_for_an_old_key(service, op)
        await service.core.begin_drain(move=True)
        store.may_answer.set()
        answer = await call
        assert (answer.op, answer.meta) == (Op.ERROR, {"owner": ""})
        assert store.kinds(instance) == ["create", "step", "step", "recover"]


async def test_no_operation_begins_on_an_instance_that_ends_while_its_key_is_looked_for() -> None:
    store = _SlowStore()
    async with supervised(store=store) as service:
        instance, step = await _asked_for_an_old_key(service, Op.STEP)
        releasing = asyncio.create_task(service.release(instance))
        await until(lambda: "release" in store.kinds(instance))
        store.may_answer.set()
        assert error_of(await step).code is ErrorCode.INSTANCE_RELEASED
        assert await releasing
        assert store.kinds(instance) == ["create", "step", "step", "release"]


async def test_large_answers_are_read_from_the_store_and_not_held() -> None:
    service = await _begun(store=StoreConfig(answers_mib=1))
    answers = service.core.answers
    instance = await service.create(task_id="echo-endless")
    large = "x" * 400_000
    first = await service.call(Op.STEP, instance, _message(instance, large), key="k0")
    for number in range(1, 4):
        await service.step(instance, large, key=f"k{number}")
    assert 400_000 < answers.held_bytes <= 1024 * 1024
    again = await service.call(Op.STEP, instance, _message(instance, large), key="k0")
    assert again.body == first.body
    await service.release(instance)
    assert answers.held_bytes == 0
    await service.core.close()


async def test_a_step_that_cost_the_instance_has_its_timeout_for_an_answer_afterwards() -> None:
    async with supervised() as service:
        instance = await service.create("diary")
        service.factory.home_of(instance).runner.refuse[Op.STEP] = ("step_timeout", "killed")
        message = _message(instance)
        assert await service.refusal(Op.STEP, instance, message, key="k") is ErrorCode.STEP_TIMEOUT
        assert await service.refusal(Op.STEP, instance, message, key="k") is ErrorCode.STEP_TIMEOUT
        assert await service.refusal(Op.STEP, instance, message, key="new") is ErrorCode.INSTANCE_LOST


async def test_an_answer_waits_for_the_commit_of_its_record() -> None:
    async with supervised() as service:
        instance = await service.create()
        service.store.commits.clear()
        step = asyncio.create_task(service.step(instance, key="k"))
        await service.store.commit_awaited.wait()
        assert service.store.kinds(instance) == ["create", "step"]
        again = asyncio.create_task(service.step(instance, key="k"))
        await settle()
        assert not step.done()
        assert not again.done()
        assert (await service.call(Op.PING)).op is Op.REPLY
        service.store.commits.set()
        assert (await step) == (await again)
