"""10,000 random operations against a model: nothing leaks, nothing runs twice, nothing is anyone else's.

Steps carry contents that occur once in a run, so that a world's count of what it heard shows every double
and every missing execution. Time stands still unless an operation waits for a box, or a rule moves it.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Op
from tests.harness.episode_model import ModelInstance, gone_code
from tests.harness.modelled_service import (
    ENVIRONMENTS,
    NO_LUCK,
    TENANTS,
    ModelledService,
    step_body,
    waited_in_vain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

numbers = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Thousands of faults are logged as they should be, and nobody reads them here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Operations(ModelledService):
    """Every operation and every fault, at random."""

    @rule(number=numbers, environment=st.sampled_from(ENVIRONMENTS), fresh=st.booleans(), keyed=st.booleans())
    def create(self, number: int, environment: str, fresh: bool, keyed: bool) -> None:
        tenant = TENANTS[number % 2]
        body = {"environment": environment, "task_id": "echo-10", "fresh": fresh and number % 3 == 0}
        meta = {"key": f"create-{number}"} if keyed else {}
        known = self.created.get((tenant, f"create-{number}")) if keyed else None
        (answer,) = self._do(self.callers[tenant].call(Op.CREATE, "", body, **meta))
        if known is not None:
            self._check_known_create(known, body, answer)
            return
        if answer.op is Op.ERROR:
            assert waited_in_vain(answer)
            return
        self.model[answer.instance_id] = ModelInstance(
            answer.instance_id, tenant, environment, self.clock.now
        )
        if keyed:
            self.created[tenant, f"create-{number}"] = (body, answer.body)

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
        (answer,) = self._do(self._call(Op.STEP, instance, step_body(instance.instance_id, content), **meta))
        self._after_step(instance, content, answer, meta.get("key"))

    @rule(number=numbers)
    def step_at_the_wrong_index(self, number: int) -> None:
        instance = self._some(number)
        if instance is None or instance.finished:
            return
        body = step_body(instance.instance_id, "never heard")
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
        sent = step_body(instance.instance_id, "something else" if other else content)
        (answer,) = self._do(self._call(Op.STEP, instance, sent, key=key))
        if other:
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
            self._call(Op.STEP, instance, step_body(instance.instance_id, content), key=key)
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
            self._call(Op.STEP, instance, step_body(instance.instance_id, content)),
            self._call(Op.RELEASE, instance, {"instance_id": instance.instance_id}),
        )
        assert json.loads(release.body)["released"]
        instance.state = "released"
        cut_off = step.op is Op.ERROR and error_of(step).code is ErrorCode.INSTANCE_RELEASED
        assert step.op is Op.REPLY or cut_off or waited_in_vain(step)

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
        body = step_body(instance.instance_id, "never heard")
        (answer,) = self._do(stranger.call(op, instance.instance_id, body))
        assert error_of(answer).code is ErrorCode.UNKNOWN_INSTANCE

    @rule(number=numbers)
    def use_what_has_ended(self, number: int) -> None:
        ended = [each for each in self.model.values() if not each.live]
        if not ended:
            return
        instance = ended[number % len(ended)]
        (answer,) = self._do(self._call(Op.STEP, instance, step_body(instance.instance_id, "too late")))
        assert error_of(answer).code is gone_code(instance)

    @rule(seconds=st.sampled_from([1, 1, 10, 10, 40, 40, 100, 299, 300, 901]))
    def let_time_pass(self, seconds: float) -> None:
        self._pass(seconds)

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
        body = step_body(instance.instance_id, f"message {next(self.contents)}")
        call = self.loop.create_task(self._call(Op.STEP, instance, body))
        self._settle()
        self._lose_state_of(homes[0])
        self._used(instance)
        self._settle(homes[0].die)
        expected = ErrorCode.SANDBOX_FAILED if instance.deterministic else ErrorCode.INSTANCE_LOST
        assert error_of(call.result()).code is expected

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
        first = next(iter(box.runner.places))
        self._do(self._call(Op.RELEASE, self.model[first], {"instance_id": first}))
        self.model[first].state = "released"
        # Its neighbours go on. The place is never given to another, whatever the box still has in it.
        box.hanging.discard(Op.RELEASE)
        box.runner.places.pop(first, None)

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
            self.loop.run_until_complete(self.service.core.maintenance.stop())
            self.loop.run_until_complete(self.service.core.lease.stop())
        for instance in self.model.values():
            instance.lose_state()
            self._used(instance)
        self.operations = 0
        self.factory.failures.clear()
        self._new_life()


TestOperations = Operations.TestCase
TestOperations.settings = settings(
    max_examples=280,
    stateful_step_count=200,
    derandomize=True,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),  # to explain a failure, every line would have to be traced
    suppress_health_check=list(HealthCheck),
)
