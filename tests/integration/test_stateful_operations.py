"""10,000 random operations against a model: nothing leaks, nothing runs twice, nothing is anyone else's.

Steps carry contents that occur once in a run, so that a world's count of what it heard shows every double
and every missing execution. Time stands still unless an operation waits for a box, or a rule moves it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sandbox_service.config import LeaseConfig, PoolConfig
from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.pool.state import BoxState
from sandbox_service.runner.frames import Frame, Op
from sandbox_service.stream.failures import error_of
from tests.fakes.clock import FakeClock
from tests.fakes.episode_model import ModelInstance, gone_code
from tests.fakes.sandboxes import FakeSandbox, FakeSandboxFactory
from tests.fakes.supervised import Caller, Supervised, fake_config
from tests.fakes.trajectories import MemoryTrajectoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

TENANTS = ("ada", "bob")
ENVIRONMENTS = ("echo", "diary", "sheet")
POOL = PoolConfig(min_boxes=1, max_boxes=3, max_starting=2, max_uses=5, queue_timeout_s=60)
NO_LUCK = "this start fails because a rule says so"

numbers = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Thousands of faults are logged as they should be, and nobody reads them here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _waited_in_vain(answer: Frame) -> bool:
    """Whether a call got no box: none became free in time, or one too many starts was made to fail."""
    error = error_of(answer)
    return error.code is ErrorCode.QUEUE_TIMEOUT or error.detail == NO_LUCK


def _step_body(instance_id: str, content: str) -> dict[str, Any]:
    return {"instance_id": instance_id, "message": {"role": "assistant", "content": content}}


class Operations(RuleBasedStateMachine):
    """One supervisor over fakes, its restarts, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.store = MemoryTrajectoryStore()
        self.factory = FakeSandboxFactory()
        self.model: dict[str, ModelInstance] = {}
        self.created: dict[tuple[str, str], tuple[dict[str, Any], bytes]] = {}
        self.contents = itertools.count()
        self.operations = 0

    @initialize()
    def begin(self) -> None:
        self._new_life()

    # What the rules are made of.

    def _new_life(self) -> None:
        self.service = Supervised(fake_config(POOL), self.factory, self.store, self.clock)
        self.callers = {tenant: Caller(self.service.core, tenant) for tenant in TENANTS}
        self.loop.run_until_complete(self.service.core.start())
        self._settle()
        self.began = self.clock.now
        self.of_this_life: set[tuple[str, str]] = set()

    def _settle(self, *actions: Callable[[], None]) -> None:
        """Do something that only the loop may do, and let all that follows from it happen."""
        self.loop.run_until_complete(_quiet(*actions))

    def _do(self, *calls: Coroutine[Any, Any, Frame]) -> list[Frame]:
        """Run calls side by side; those that wait for a box wait until their time in the queue is over."""
        self.operations += len(calls)
        tasks = [self.loop.create_task(call) for call in calls]
        self._settle()
        if not all(task.done() for task in tasks):
            self._pass(POOL.queue_timeout_s + 1)
        assert all(task.done() for task in tasks), "every call is answered in time"
        return [task.result() for task in tasks]

    def _pass(self, seconds: float) -> None:
        before = {instance.instance_id for instance in self.model.values() if instance.live}
        busy = self._busy()
        self._settle(lambda: self.service.pass_time(seconds))
        for instance_id in before - busy:
            self.model[instance_id].expire_at(self.clock.now)

    def _busy(self) -> set[str]:
        return {each.instance_id for each in self._live_instances() if each.busy}

    def _live_instances(self) -> list[Any]:
        return self.service.core._parts.table.live()

    def _some(self, number: int, *, live: bool = True) -> ModelInstance | None:
        chosen = [each for each in self.model.values() if each.live or not live]
        return chosen[number % len(chosen)] if chosen else None

    def _call(self, op: Op, instance: ModelInstance, body: Any, **meta: Any) -> Coroutine[Any, Any, Frame]:
        return self.callers[instance.tenant].call(op, instance.instance_id, body, **meta)

    def _used(self, instance: ModelInstance) -> None:
        instance.used_at = self.clock.now

    def _check_refusal(self, instance: ModelInstance, answer: Frame) -> None:
        if not instance.live:
            assert error_of(answer).code is gone_code(instance)
        else:
            assert _waited_in_vain(answer)
            self._used(instance)

    # Rules: the verbs.

    @rule(number=numbers, environment=st.sampled_from(ENVIRONMENTS), fresh=st.booleans(), keyed=st.booleans())
    def create(self, number: int, environment: str, fresh: bool, keyed: bool) -> None:
        tenant = TENANTS[number % 2]
        body = {"environment": environment, "task_id": "echo-10", "fresh": fresh and number % 3 == 0}
        meta = {"key": f"create-{number}"} if keyed else {}
        known = self._known_create(tenant, f"create-{number}") if keyed else None
        (answer,) = self._do(self.callers[tenant].call(Op.CREATE, "", body, **meta))
        if known is not None:
            self._check_known_create(known, body, answer)
            return
        if answer.op is Op.ERROR:
            assert _waited_in_vain(answer)
            return
        self.model[answer.instance_id] = ModelInstance(
            answer.instance_id, tenant, environment, self.clock.now
        )
        if keyed:
            self.created[tenant, f"create-{number}"] = (body, answer.body)
            self.of_this_life.add((tenant, f"create-{number}"))

    def _known_create(self, tenant: str, key: str) -> tuple[dict[str, Any], bytes] | None:
        """What a key stands for; those of an earlier life are kept for as long as tombstones are."""
        long_ago = self.clock.now - self.began > LeaseConfig().tombstone_s
        if long_ago and (tenant, key) not in self.of_this_life:
            return None
        return self.created.get((tenant, key))

    def _check_known_create(self, known: tuple[dict[str, Any], bytes], body: Any, answer: Frame) -> None:
        sent, got = known
        if sent == body:
            assert answer.body == got
        else:
            assert error_of(answer).code is ErrorCode.IDEMPOTENCY_CONFLICT

    @rule(number=numbers, times=st.integers(1, 8), keyed=st.booleans(), indexed=st.booleans())
    def step(self, number: int, times: int, keyed: bool, indexed: bool) -> None:
        for _ in range(times):
            self._step(self._some(number), keyed, indexed)

    def _step(self, instance: ModelInstance | None, keyed: bool, indexed: bool) -> None:
        if instance is None:
            return
        content = f"message {next(self.contents)}"
        meta: dict[str, Any] = {"step_index": instance.steps} if indexed else {}
        if keyed:
            meta["key"] = f"step-{content}"
        (answer,) = self._do(self._call(Op.STEP, instance, _step_body(instance.instance_id, content), **meta))
        self._after_step(instance, content, answer, meta.get("key"))

    def _after_step(
        self, instance: ModelInstance, content: str, answer: Frame, key: str | None = None
    ) -> None:
        if answer.op is Op.ERROR and instance.live and instance.finished:
            assert error_of(answer).code is ErrorCode.INSTANCE_FINISHED
            self._used(instance)
        elif answer.op is Op.ERROR:
            self._check_refusal(instance, answer)
        else:
            result = json.loads(answer.body)
            assert result["step_index"] == instance.steps
            assert result["observation"]["messages"][0]["content"] == content
            instance.steps += 1
            assert result["terminated"] == instance.finished
            self._used(instance)
            if key is not None:
                instance.answers[key] = (content, answer.body)

    @rule(number=numbers)
    def step_at_the_wrong_index(self, number: int) -> None:
        instance = self._some(number)
        if instance is None or instance.finished:
            return
        body = _step_body(instance.instance_id, "never heard")
        (answer,) = self._do(self._call(Op.STEP, instance, body, step_index=instance.steps + 1))
        assert error_of(answer).code is ErrorCode.STEP_INDEX_MISMATCH
        self._used(instance)

    @rule(number=numbers, other=st.booleans())
    def repeat_a_key(self, number: int, other: bool) -> None:
        known = [each for each in self.model.values() if each.answers]
        if not known:
            return
        instance = known[number % len(known)]
        key, (content, body) = list(instance.answers.items())[number % len(instance.answers)]
        sent = _step_body(instance.instance_id, "something else" if other else content)
        (answer,) = self._do(self._call(Op.STEP, instance, sent, key=key))
        if not instance.live:
            assert error_of(answer).code is gone_code(instance)
        elif other:
            assert error_of(answer).code is ErrorCode.IDEMPOTENCY_CONFLICT
        else:
            assert (answer.op, answer.body) == (Op.REPLY, body)

    @rule(number=numbers, same_key=st.booleans())
    def step_twice_at_once(self, number: int, same_key: bool) -> None:
        instance = self._some(number)
        if instance is None or instance.finished:
            return
        contents = [f"message {next(self.contents)}" for _ in range(2)]
        if same_key:
            contents[1] = contents[0]
        keys = [f"step-{content}" for content in contents]
        calls = [
            self._call(Op.STEP, instance, _step_body(instance.instance_id, content), key=key)
            for content, key in zip(contents, keys, strict=True)
        ]
        first, second = self._do(*calls)
        if same_key:
            assert (first.op, first.body) == (second.op, second.body)
        else:
            assert error_of(second).code is ErrorCode.INSTANCE_BUSY
        self._after_step(instance, contents[0], first, keys[0])

    @rule(number=numbers)
    def evaluate(self, number: int) -> None:
        instance = self._some(number)
        if instance is None:
            return
        body = {"instance_id": instance.instance_id}
        (answer,) = self._do(self._call(Op.EVALUATE, instance, body))
        if answer.op is Op.ERROR:
            self._check_refusal(instance, answer)
        else:
            assert json.loads(answer.body)["score"] == instance.score
            self._used(instance)

    @rule(number=numbers, ended=st.booleans())
    def release(self, number: int, ended: bool) -> None:
        instance = self._some(number, live=not ended)
        if instance is None:
            return
        body = {"instance_id": instance.instance_id}
        (answer,) = self._do(self._call(Op.RELEASE, instance, body))
        assert json.loads(answer.body)["released"] == instance.live
        if instance.live:
            instance.state = "released"

    @rule(number=numbers)
    def release_in_mid_step(self, number: int) -> None:
        instance = self._some(number)
        if instance is None or instance.finished:
            return
        content = f"message {next(self.contents)}"
        step, release = self._do(
            self._call(Op.STEP, instance, _step_body(instance.instance_id, content)),
            self._call(Op.RELEASE, instance, {"instance_id": instance.instance_id}),
        )
        assert json.loads(release.body)["released"]
        instance.state = "released"
        cut_off = step.op is Op.ERROR and error_of(step).code is ErrorCode.INSTANCE_RELEASED
        assert step.op is Op.REPLY or cut_off or _waited_in_vain(step)

    @rule(number=numbers, count=st.integers(1, 3))
    def fork(self, number: int, count: int) -> None:
        instance = self._some(number)
        if instance is None:
            return
        body = {"instance_id": instance.instance_id, "count": count}
        (answer,) = self._do(self._call(Op.FORK, instance, body))
        if answer.op is Op.ERROR and instance.live and instance.environment == "sheet":
            assert error_of(answer).code is ErrorCode.FORK_UNSUPPORTED
            self._used(instance)
        elif answer.op is Op.ERROR:
            self._check_refusal(instance, answer)
        else:
            self._used(instance)
            for copy_id in json.loads(answer.body)["instance_ids"]:
                self.model[copy_id] = instance.fork(copy_id, self.clock.now)

    @rule(number=numbers, op=st.sampled_from([Op.STEP, Op.EVALUATE, Op.RELEASE, Op.FORK, Op.TRAJECTORY]))
    def touch_what_belongs_to_another_tenant(self, number: int, op: Op) -> None:
        instance = self._some(number, live=False)
        if instance is None:
            return
        stranger = self.callers["bob" if instance.tenant == "ada" else "ada"]
        body = _step_body(instance.instance_id, "never heard")
        (answer,) = self._do(stranger.call(op, instance.instance_id, body))
        assert error_of(answer).code is ErrorCode.UNKNOWN_INSTANCE

    @rule(number=numbers)
    def use_what_has_ended(self, number: int) -> None:
        ended = [each for each in self.model.values() if not each.live]
        if not ended:
            return
        instance = ended[number % len(ended)]
        (answer,) = self._do(self._call(Op.STEP, instance, _step_body(instance.instance_id, "too late")))
        assert error_of(answer).code is gone_code(instance)

    # Rules: time and faults.

    @rule(seconds=st.sampled_from([1, 1, 10, 10, 40, 40, 100, 299, 300, 901]))
    def let_time_pass(self, seconds: float) -> None:
        self._pass(seconds)

    def _box(self, number: int) -> FakeSandbox | None:
        alive = [each for each in self.factory.alive if each.alive]
        return alive[number % len(alive)] if alive else None

    @rule(number=numbers)
    def kill_a_box(self, number: int) -> None:
        box = self._box(number)
        if box is None:
            return
        self._lose_state_of(box)
        self._settle(box.die)

    @rule(number=numbers)
    def kill_a_box_in_mid_step(self, number: int) -> None:
        instance = self._some(number)
        if instance is None or instance.finished:
            return
        homes = [each for each in self.factory.alive if instance.instance_id in each.runner.places]
        if not homes:
            return
        homes[0].hold(Op.STEP)
        body = _step_body(instance.instance_id, f"message {next(self.contents)}")
        call = self.loop.create_task(self._call(Op.STEP, instance, body))
        self._settle()
        self._lose_state_of(homes[0])
        self._used(instance)
        self._settle(homes[0].die)
        expected = ErrorCode.SANDBOX_FAILED if instance.deterministic else ErrorCode.INSTANCE_LOST
        assert error_of(call.result()).code is expected

    def _lose_state_of(self, box: FakeSandbox) -> None:
        for instance_id in box.runner.places:
            self.model[instance_id].lose_state()

    @rule(number=numbers)
    def kill_a_worker(self, number: int) -> None:
        instance = self._some(number)
        homes = [
            each for each in self.factory.alive if instance and instance.instance_id in each.runner.places
        ]
        if instance is None or not homes:
            return
        instance.lose_state()
        self._settle(lambda: homes[0].lose(instance.instance_id))

    @rule(number=numbers)
    def soil_a_box(self, number: int) -> None:
        box = self._box(number)
        if box is not None:
            box.runner.clean = False

    @rule(number=numbers)
    def let_a_release_hang(self, number: int) -> None:
        box = self._box(number)
        if box is None or not box.runner.places:
            return
        box.hanging.add(Op.RELEASE)
        first, *others = box.runner.places
        self._do(self._call(Op.RELEASE, self.model[first], {"instance_id": first}))
        self.model[first].state = "released"
        for other in others:
            self.model[other].lose_state()

    @rule()
    def let_a_start_fail(self) -> None:
        self.factory.failures = [ServiceError(ErrorCode.SANDBOX_FAILED, NO_LUCK)]

    @precondition(lambda self: self.operations > 40)
    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        """The supervisor is closed, or killed so that its boxes are left for the next one's sweep."""
        if orderly:
            self.loop.run_until_complete(self.service.core.close())
        else:
            self.loop.run_until_complete(self.service.core._upkeep.stop())
        for instance in self.model.values():
            instance.lose_state()
            self._used(instance)
        self.operations = 0
        self.factory.failures.clear()
        self._new_life()

    # What always holds.

    @invariant()
    def the_model_and_the_service_agree(self) -> None:
        if not hasattr(self, "service"):
            return
        live = {each.instance_id: each for each in self._live_instances()}
        assert set(live) == {each.instance_id for each in self.model.values() if each.live}
        for instance_id, instance in live.items():
            assert instance.step_index == self.model[instance_id].steps
            assert instance.tenant == self.model[instance_id].tenant
            assert not instance.busy

    @invariant()
    def boxes_are_conserved_and_hold_only_what_lives(self) -> None:
        if not hasattr(self, "service"):
            return
        boxes = 0
        for environment in ENVIRONMENTS:
            pool = self.service.core._parts.pools.of(environment)
            states = [box.state for box in pool.state.boxes.values()]
            assert set(states) <= {BoxState.IDLE, BoxState.BUSY}
            assert len(states) <= POOL.max_boxes
            assert not pool.state.queues.tenants()
            boxes += len(states)
        assert len(self.factory.alive) == boxes
        placed = {each.instance_id for each in self._live_instances() if each.box is not None}
        held = [name for sandbox in self.factory.alive for name in sandbox.runner.places]
        assert sorted(held) == sorted(placed)

    @invariant()
    def every_world_heard_every_step_once(self) -> None:
        for sandbox in self.factory.alive:
            tenants = {self.model[name].tenant for name in sandbox.runner.places}
            assert len(tenants) <= 1
            for name, place in sandbox.runner.places.items():
                assert place.world.heard == place.step_index == self.model[name].steps
            if sandbox.spec.name == "diary":
                assert set(sandbox.runner.executed.values()) <= {1}

    def teardown(self) -> None:
        try:
            if hasattr(self, "service"):
                self.loop.run_until_complete(self.service.core.close())
                assert self.factory.alive == []
            assert not asyncio.all_tasks(self.loop)
        finally:
            self.loop.close()


async def _quiet(*actions: Callable[[], None]) -> None:
    """Do the actions, then let the loop turn until nothing that is ready is left to do."""
    loop = asyncio.get_running_loop()
    for action in actions:
        action()
    still = 0
    while still < 3:
        await asyncio.sleep(0)
        still = still + 1 if not loop._ready else 0  # type: ignore[attr-defined]


TestOperations = Operations.TestCase
TestOperations.settings = settings(
    max_examples=220,
    stateful_step_count=200,
    derandomize=True,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),  # to explain a failure, every line would have to be traced
    suppress_health_check=list(HealthCheck),
)
