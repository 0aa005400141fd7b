"""Tests without a reward are the fault of the agent, the task, or the machine."""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.environments.harbor.box.grading import Grader
from sandbox_service.environments.harbor.box.step_results import DueTests
from sandbox_service.environments.harbor.box.step_tests import StepTests
from sandbox_service.runner.kernel.cpu_usage import CpuUsage
from sandbox_service.runner.worker.allowance import kept_waiting
from sandbox_service.runner.world import Execution, Verdict, WorldError
from sandbox_service.wire.json_types import JsonObject
from tests.harness.busy import busy_cpu
from tests.harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


WORK = "d29yaw=="
ONE: JsonObject = {"reward_txt": "1"}
ZERO: JsonObject = {"reward_txt": "0"}
NONE: JsonObject = {}
HANGING: JsonObject = {"exit_code": None}
KILLED: JsonObject = {"exit_code": -9, **ONE}
SILENT: JsonObject = {"silent": True}
TOO_BUSY: JsonObject = {"exit_code": 75, "seconds": 0.5}


class Verifier:
    """A verifier whose tests end as is asked."""

    def __init__(self, ends: dict[str, JsonObject], usage: CpuUsage) -> None:
        self._ends = ends
        self._usage = usage
        self._end = ends["untouched"]

    def request(self, message: JsonObject, timeout_s: float) -> JsonObject:
        if message["do"] == "unpack":
            self._end = self._ends[message["archive"]]
        if message["do"] != "wait":
            return {"reached": True, "ended": True, **self._end}
        if "silent" in self._end:
            time.sleep(min(timeout_s, 0.5))
            raise TimeoutError
        time.sleep(self._end.get("seconds", 0.0))
        return {"exit_code": 0, **self._end}

    def usage(self, enough_s: float = math.inf) -> CpuUsage:
        return self._usage

    def close(self) -> None:
        pass


class Agent:
    """An agent whose shell does everything, and whose verifiers have tests that end as is asked."""

    workspace = "/workspace/1"

    def __init__(
        self,
        left: JsonObject = ONE,
        untouched: JsonObject = ZERO,
        usage: CpuUsage | None = None,
        removal: type[OSError] = PermissionError,
    ) -> None:
        self._ends = {"untouched": untouched, WORK: left}
        self._usage = usage or CpuUsage()
        self._removal = removal
        self.removed = 0

    def shell(self, *_: object) -> Execution:
        return Execution("", 0)

    def remove_files(self, *_: object) -> None:
        self.removed += 1
        raise self._removal

    def candidate(self, _: str, *, sockets: bool) -> Verifier:
        assert sockets, "tests may start servers"
        return Verifier(self._ends, self._usage)


def step(name: str = "", **changes: Any) -> JsonObject:
    table = {
        "name": name,
        "files": {},
        "env": {},
        "timeout_s": 0.1,
        "min_reward": {},
        "separate": False,
        "tests_in_image": False,
    }
    return {**table, "artifacts": [], **changes}


def graded(agent: Agent, *steps: dict[str, Any], evaluate_s: float = 60.0, **changes: Any) -> Verdict:
    """Return the verdict on one working directory for each step."""
    steps = steps or (step(),)
    return grader(agent, *steps, evaluate_s=evaluate_s, **changes).grade([WORK] * len(steps))


def grader(
    agent: Agent, *steps: dict[str, Any], evaluate_s: float = 60.0, part: int | None = None, **changes: Any
) -> Grader:
    grading = {"strategy": "final", "steps": list(steps), "reward_range": [0.0, 1.0], **changes}
    task = {
        "env": {},
        "image": False,
        "tests_cwd": "/app",
        "files": {},
        "steps": [{"files": {}} for _ in steps],
    }
    task["archive_bytes"] = 1000
    return Grader(agent, task, grading, time.monotonic() + evaluate_s, part)  # type: ignore[arg-type]


def refused(agent: Agent, *steps: dict[str, Any], **changes: Any) -> WorldError:
    with pytest.raises(WorldError) as caught:
        graded(agent, *steps, **changes)
    return caught.value


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """This process gets a fifth of a processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with busy_cpu():
            wait_until(lambda: kept_waiting(0.0, 1.0, 1.0))
            yield
    finally:
        os.sched_setaffinity(0, before)


BAD = {
    "none": (NONE, "neither"),
    "hanging": (HANGING, "did not end within 0.1 s"),
    "killed": (KILLED, "killed by signal -9"),
    "left": ({"ended": False, **ONE}, "could not be ended"),
    "too-great": ({"reward_txt": "7"}, "the reward is 7, outside of 0 to 1"),
    "two": ({"reward_json": '{"a": 1, "b": 1}'}, "none is named 'reward'"),
    "unfilled": ({"error": "no such folder"}, "the verifier could not"),
}


@pytest.mark.parametrize("name", BAD)
def test_tests_that_fail_on_the_agents_files_alone_are_its_lowest_score(name: str) -> None:
    end, reason = BAD[name]
    verdict = graded(Agent(end))
    assert (verdict.score, verdict.success) == (0.0, False)
    assert reason in verdict.details["reason"]


@pytest.mark.parametrize("name", BAD)
def test_tests_that_fail_on_the_untouched_files_too_are_the_tasks_fault(name: str) -> None:
    end, reason = BAD[name]
    error = refused(Agent(end, end))
    assert error.code == "grader_failed"
    assert reason in error.detail


def test_untouched_files_without_room_are_the_boxs_fault() -> None:
    full = {"error": "OSError: [Errno 28] No space left on device: '/workspace/candidate-1/app'"}
    error = refused(Agent(KILLED, full))
    assert error.code == "sandbox_failed"
    assert "sandbox.limits.workspace_mib" in error.detail
    assert graded(Agent(full)).score == 0.0


def test_untouched_files_are_tested_without_the_agents_files() -> None:
    agent = Agent(KILLED)
    assert graded(agent).score == 0.0
    assert agent.removed == 1


def test_an_agent_whose_files_take_too_long_to_remove_has_the_lowest_score() -> None:
    verdict = graded(Agent(KILLED, removal=TimeoutError))
    assert verdict.score == 0.0
    assert "could not be removed" in verdict.details["reason"]


def test_the_lowest_score_is_that_of_the_reward_range() -> None:
    verdict = graded(Agent(KILLED), reward_range=[-2.0, 5.0])
    assert verdict.score == -2.0
    assert graded(Agent({"reward_txt": "4"}), reward_range=[-2.0, 5.0]).score == 4.0


def test_an_attack_on_one_of_several_steps_costs_the_whole_score() -> None:
    steps = (step("first"), step("second"))
    verdict = graded(Agent(KILLED), *steps, strategy="mean")
    assert (verdict.score, verdict.details["steps"]) == (0.0, ["first"])


def test_several_rewards_without_a_score_are_a_steps_own_affair() -> None:
    both = {"reward_json": '{"a": 0.5, "b": 0}'}
    steps = (step("first"), step("second"))
    assert refused(Agent(both, both), *steps).code == "grader_failed"
    assert graded(Agent(both), *steps).score == 0.0


def test_tests_that_the_evaluation_cuts_short_are_the_agents_if_untouched_files_are_quick() -> None:
    verdict = graded(Agent(HANGING), step(timeout_s=600), evaluate_s=3)
    assert verdict.score == 0.0
    assert "left of the evaluation; the task gives them 600 s" in verdict.details["reason"]


def test_no_step_takes_the_time_of_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    began, deadlines = time.monotonic(), []

    def run(_: StepTests, index: int, work: str | None, deadline: float) -> dict[str, float]:
        deadlines.append(deadline - began)
        return {"reward": 1.0}

    monkeypatch.setattr(StepTests, "run", run)
    graded(Agent(), step("short", timeout_s=100), step("long", timeout_s=300), evaluate_s=820)
    assert deadlines == [pytest.approx(405 * 160 / 520, abs=5), pytest.approx(405, abs=5)]


def test_tests_that_have_too_little_time_for_any_files_are_a_matter_of_the_deadline() -> None:
    agent = Agent(HANGING, HANGING)
    assert refused(agent, step(timeout_s=600), evaluate_s=3).code == "deadline_exceeded"


def test_a_verifier_that_sleeps_is_not_taken_for_a_busy_machine() -> None:
    assert graded(Agent(SILENT)).details["reason"] == "the verifier did not answer in time"


@pytest.mark.usefixtures("busy_machine")
@pytest.mark.parametrize("end", [HANGING, SILENT], ids=["unfinished", "silent"])
def test_tests_that_a_busy_machine_keeps_from_their_time_are_an_error_to_retry(end: JsonObject) -> None:
    waiting = CpuUsage(runnable=True)
    error = refused(Agent(end, usage=waiting), step(timeout_s=600), evaluate_s=3)
    assert error.code == "deadline_exceeded"
    assert "too busy" in error.detail


@pytest.mark.usefixtures("busy_machine")
def test_tests_that_say_that_the_machine_is_too_busy_are_an_error_to_retry() -> None:
    error = refused(Agent(TOO_BUSY, usage=CpuUsage(runnable=True)))
    assert error.code == "deadline_exceeded"


def test_tests_that_did_not_wait_are_not_believed_that_the_machine_is_too_busy() -> None:
    assert "neither" in graded(Agent(TOO_BUSY)).details["reason"]


def test_a_machine_that_is_not_busy_kept_no_tests_waiting_whatever_they_look_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chains of processes that end at once are always runnable, and their computing is counted nowhere."""
    monkeypatch.setattr("sandbox_service.environments.harbor.box.step_tests.kept_waiting", lambda *_: False)
    assert "neither" in graded(Agent(TOO_BUSY, usage=CpuUsage(runnable=True))).details["reason"]


def test_a_reward_is_one_whatever_the_exit_status_says() -> None:
    assert graded(Agent({**TOO_BUSY, **ONE}, usage=CpuUsage(runnable=True))).score == 1.0


OUTLINE: JsonObject = {"name": "first", "min_reward": {}}
"""A step that is graded elsewhere."""


def part(agent: Agent, work: str | None = WORK, *, untouched: bool = False) -> JsonObject:
    """Return the result of the second of two steps, which is graded by itself."""
    made = grader(agent, OUTLINE, step("second"), part=1)
    return dict(made.grade_part(DueTests(1, untouched), work).details)


def test_a_step_that_is_graded_by_itself_has_a_result() -> None:
    assert part(Agent(ONE)) == {"rewards": {"reward": 1.0}}
    assert part(Agent(ONE), work=None)["note"] == "too large to be graded"
    assert part(Agent(ONE, ZERO), work=None, untouched=True) == {"rewards": {"reward": 0.0}}
    # Only those of the whole task must be a score.
    both = {"reward_json": '{"a": 0.5, "b": 0}'}
    assert part(Agent(both, both)) == {"rewards": {"a": 0.5, "b": 0.0}}


@pytest.mark.parametrize("name", [name for name in BAD if name != "two"])
def test_a_step_that_is_graded_by_itself_is_attacked_or_the_task_is_at_fault(name: str) -> None:
    end, reason = BAD[name]
    result = part(Agent(end))
    assert result["rewards"] == {"reward": 0.0}
    assert reason in result["reason"]
    with pytest.raises(WorldError) as caught:
        part(Agent(end, end))
    assert caught.value.code == "grader_failed"
    with pytest.raises(WorldError) as caught:
        part(Agent(ONE, end), work=None, untouched=True)
    assert caught.value.code == "grader_failed"


def test_files_that_take_too_long_to_remove_are_an_attack_on_a_step_by_itself() -> None:
    assert "could not be removed" in part(Agent(KILLED, removal=TimeoutError))["reason"]


def test_a_step_that_is_graded_by_itself_has_the_time_of_the_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, deadlines = time.monotonic(), []

    def run(_: StepTests, index: int, work: str | None, deadline: float) -> dict[str, float]:
        deadlines.append((index, deadline - began))
        return {"reward": 1.0}

    monkeypatch.setattr(StepTests, "run", run)
    made = grader(Agent(), OUTLINE, step("second", timeout_s=300), evaluate_s=820, part=1)
    made.grade_part(DueTests(1), WORK)
    assert deadlines == [(1, pytest.approx(405, abs=5))]
