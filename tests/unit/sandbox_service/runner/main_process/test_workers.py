"""Deadlines, and workers that die."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.runner_box import ECHO, error_code, runner_box

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox


def worker_pid(box: RunnerBox) -> int:
    return next(process["pid"] for process in box.processes() if process["role"] == "worker")


def test_a_worker_past_the_deadline_is_killed_and_the_step_timed_out(agent_box: RunnerBox) -> None:
    agent_box.create("late")
    agent_box.create("neighbour")
    assert (
        error_code(agent_box.step("late", {"do": "sleep", "seconds": 60}, deadline_s=0.3)) == "step_timeout"
    )
    assert error_code(agent_box.step("late", {"do": "workspace"})) == "unknown_instance"
    assert agent_box.release("late")
    assert agent_box.act("neighbour", do="workspace")["instance"] == "neighbour"
    agent_box.release("neighbour")


@pytest.mark.parametrize("ended_by", ["control", "python"])
def test_a_step_that_waits_for_processes_to_die_is_not_late(agent_box: RunnerBox, ended_by: str) -> None:
    agent_box.create("slow")
    agent_box.act("slow", do="python", code="kept = 1")
    launcher = next(process["pid"] for process in agent_box.processes() if process["role"] == "launcher")
    call = {
        "control": {"do": "control", "name": "kill"},
        "python": {"do": "python", "code": "import time; time.sleep(60)", "timeout_s": 0.2},
    }[ended_by]
    body = {"message": {"role": "assistant", "content": json.dumps(call)}}
    # As when it waits for a process that the kernel takes long to end.
    os.kill(launcher, signal.SIGSTOP)
    try:
        step = agent_box.send(Op.STEP, "slow", meta={"deadline_s": 2}, body=body)
        time.sleep(3)
    finally:
        os.kill(launcher, signal.SIGCONT)
    assert agent_box.answer(step).op is Op.REPLY
    assert "NameError" in agent_box.act("slow", do="python", code="kept")["output"]
    assert agent_box.release("slow")


def test_a_step_that_waited_for_processes_to_die_has_only_so_much_more_time(agent_box: RunnerBox) -> None:
    calls = {
        "slow": {"do": "control", "name": "kill", "sleep_s": 60},
        "neighbour": {"do": "sleep", "seconds": 60},
    }
    bodies = {
        name: {"message": {"role": "assistant", "content": json.dumps(call)}} for name, call in calls.items()
    }
    for name in calls:
        agent_box.create(name)
    launcher = next(process["pid"] for process in agent_box.processes() if process["role"] == "launcher")
    os.kill(launcher, signal.SIGSTOP)
    try:
        slow = agent_box.send(Op.STEP, "slow", meta={"deadline_s": 1}, body=bodies["slow"])
        time.sleep(1.5)
    finally:
        os.kill(launcher, signal.SIGCONT)
    neighbour = agent_box.send(Op.STEP, "neighbour", meta={"deadline_s": 10}, body=bodies["neighbour"])
    assert error_code(agent_box.answer(slow)) == "step_timeout"
    # It sleeps yet: the other step was ended first.
    assert agent_box.release("neighbour")
    assert error_code(agent_box.answer(neighbour)) == "instance_lost"
    assert agent_box.release("slow")


def test_a_worker_that_leaves_in_mid_step_is_an_instance_lost(agent_box: RunnerBox) -> None:
    agent_box.create("gone")
    assert error_code(agent_box.step("gone", {"do": "exit", "code": 0})) == "instance_lost"
    assert agent_box.release("gone")


def test_an_action_at_which_the_world_raises_ends_its_episode_which_is_graded(agent_box: RunnerBox) -> None:
    agent_box.create("raises")
    reply = agent_box.step("raises", {"do": "raise"})
    assert b"Traceback" not in reply.body
    result = json.loads(reply.body)
    assert (result["truncated"], result["reward"], result["info"]) == (
        True,
        0.0,
        {"exception": "RuntimeError"},
    )
    assert "RuntimeError" in result["observation"]["messages"][0]["content"]
    assert error_code(agent_box.step("raises", {"do": "workspace"})) == "instance_finished"
    graded = agent_box.request(Op.EVALUATE, "raises", body={"grading": {"score": 0.5}})
    assert json.loads(graded.body)["score"] == 0.5
    agent_box.release("raises")


def test_an_action_at_which_the_world_exits_ends_its_episode_and_no_worker(agent_box: RunnerBox) -> None:
    agent_box.create("leaves")
    assert agent_box.act("leaves", do="leave") == {"exception": "SystemExit"}
    graded = agent_box.request(Op.EVALUATE, "leaves", body={"grading": {"score": 0.5}})
    assert json.loads(graded.body)["score"] == 0.5
    agent_box.release("leaves")


def test_a_world_that_cannot_seal_what_the_agent_left_has_ended_all_the_same(agent_box: RunnerBox) -> None:
    agent_box.create("sealed")
    assert json.loads(agent_box.step("sealed", {"do": "end", "seal": "raise"}).body)["terminated"]
    assert error_code(agent_box.step("sealed", {"do": "workspace"})) == "instance_finished"
    graded = agent_box.request(Op.EVALUATE, "sealed", body={"grading": {"raise_after_a_step": True}})
    assert json.loads(graded.body)["details"] == {"exception": "RuntimeError"}
    agent_box.release("sealed")


def test_a_last_step_whose_episode_could_not_be_ended_is_not_taken_again(agent_box: RunnerBox) -> None:
    agent_box.create("unlucky")
    last, other = {"do": "end", "seal": "break", "times": 2}, {"do": "workspace"}
    for _ in range(2):
        assert error_code(agent_box.step("unlucky", last, step_index=0)) == "sandbox_failed"
        assert error_code(agent_box.step("unlucky", other, step_index=0)) == "instance_finished"
    copied = agent_box.request(Op.FORK, "unlucky", meta={"copy_id": "copy", "deadline_s": 5})
    assert error_code(copied) == "sandbox_failed"
    ended = agent_box.step("unlucky", last, step_index=0)
    assert ended.meta["terminated"]
    assert json.loads(ended.body)["info"]["steps"] == 1
    assert agent_box.step("unlucky", last, step_index=0).body == ended.body
    assert error_code(agent_box.step("unlucky", other, step_index=1)) == "instance_finished"
    agent_box.release("unlucky")


def test_what_the_machine_does_in_a_step_is_no_result(agent_box: RunnerBox) -> None:
    agent_box.create("unlucky")
    assert error_code(agent_box.step("unlucky", {"do": "break"})) == "sandbox_failed"
    assert agent_box.act("unlucky", do="workspace")["steps"] == 2
    agent_box.release("unlucky")


def test_a_package_that_replaces_the_hook_of_uncaught_exceptions_ends_no_worker(agent_box: RunnerBox) -> None:
    agent_box.create("hooked")
    agent_box.act("hooked", do="replace_excepthook")
    assert agent_box.act("hooked", do="raise") == {"exception": "RuntimeError"}
    graded = agent_box.request(Op.EVALUATE, "hooked", body={"grading": {"score": 1}})
    assert json.loads(graded.body)["details"] == {"steps": 2}
    agent_box.release("hooked")


def test_an_idle_worker_that_dies_is_told_of_unasked() -> None:
    with runner_box(ECHO) as box:
        for name in ("a", "b"):
            box.create(name, {"prompt": "hi", "steps": 9})
        os.kill(worker_pid(box), signal.SIGKILL)
        assert {box.event().instance_id, box.event().instance_id} == {"a", "b"}
        assert error_code(box.step("a", "x")) == "unknown_instance"
        assert box.create("c", {"prompt": "hi", "steps": 9}).op is Op.REPLY
        assert box.step("c", "x").op is Op.REPLY


def test_a_late_neighbour_costs_the_others_their_worker_and_they_are_told() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        for name in ("slow", "idle", "queued"):
            box.create(name)
        slow = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 60})}}
        first = box.send(Op.STEP, "slow", meta={"deadline_s": 0.3}, body=slow)
        second = box.send(Op.STEP, "queued", meta={"deadline_s": 0.1}, body=slow)
        assert error_code(box.answer(first)) == "step_timeout"
        assert error_code(box.answer(second)) == "instance_lost"
        assert box.event().instance_id == "idle"
        assert box.create("new").op is Op.REPLY


def test_what_a_late_neighbour_kept_waiting_was_not_started_and_a_create_is_made_elsewhere() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("slow")
        box.create("waiting")
        slow = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 60})}}
        late = box.send(Op.STEP, "slow", meta={"deadline_s": 1}, body=slow)
        step = box.send(Op.STEP, "waiting", meta={"deadline_s": 20}, body=slow)
        body = {"environment": "echo", "task_id": "t", "task": {}, "params": {}}
        meta = {"deadline_s": 20, "seed": 1, "max_steps": 9}
        create = box.send(Op.CREATE, "new", meta=meta, body=body)
        first, second = box.answer(late), box.answer(step)
        assert (error_code(first), "unstarted" in first.meta) == ("step_timeout", False)
        assert (error_code(second), second.meta["unstarted"]) == ("instance_lost", True)
        assert box.answer(create).op is Op.REPLY
        assert box.step("new", {"do": "sleep", "seconds": 0}).op is Op.REPLY


def test_an_instance_released_before_it_was_made_is_not_made_when_its_worker_is_lost() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("slow")
        slow = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 60})}}
        late = box.send(Op.STEP, "slow", meta={"deadline_s": 1}, body=slow)
        meta = {"deadline_s": 20, "seed": 1, "max_steps": 9}
        create = box.send(
            Op.CREATE, "new", meta=meta, body={"environment": "echo", "task_id": "t", "task": {}}
        )
        release = box.send(Op.RELEASE, "new")
        assert error_code(box.answer(late)) == "step_timeout"
        assert error_code(box.answer(create)) == "instance_lost"
        assert box.answer(release).meta["clean"]
        assert json.loads(box.request(Op.STATS).body)["instances"] == 0


@pytest.mark.parametrize(
    ("call", "what"), [("spin", "computation"), ("recurse", "recursion"), ("exhaust", "memory")]
)
def test_an_action_that_exhausts_its_worker_ends_its_own_episode_alone(call: str, what: str) -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True, shared_step_cpu_s=0.5) as box:
        box.create("greedy")
        pid = json.loads(box.create("neighbour").body)["info"]["pid"]
        result = json.loads(box.step("greedy", {"do": call}, deadline_s=100).body)
        assert (result["truncated"], result["reward"], result["info"]) == (True, 0.0, {"exhausted": what})
        assert what in result["observation"]["messages"][0]["content"]
        assert box.step("neighbour", {"do": "sleep", "seconds": 0}).op is Op.REPLY
        assert [process["pid"] for process in box.processes() if process["role"] == "worker"] == [pid]
        graded = box.request(Op.EVALUATE, "greedy", body={"grading": {"score": 0.5}})
        assert json.loads(graded.body)["score"] == 0.5


def test_an_episode_that_ended_in_exhaustion_scores_0_where_its_state_cannot_be_graded() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("greedy")
        box.create("neighbour")
        box.step("greedy", {"do": "exhaust"})
        ungradable = {"grading": {"raise_after_a_step": True}}
        assert json.loads(box.request(Op.EVALUATE, "greedy", body=ungradable).body)["score"] == 0.0
        broken = {"grading": {"raise": True}}
        assert error_code(box.request(Op.EVALUATE, "neighbour", body=broken)) == "grader_failed"


def test_a_grading_that_fails_at_what_the_agent_did_is_a_score_of_0() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("clever")
        box.act("clever", do="sleep", seconds=0)
        for grading, failed in (("raise_after_a_step", "RuntimeError"), ("nan_after_a_step", "ValueError")):
            graded = json.loads(box.request(Op.EVALUATE, "clever", body={"grading": {grading: True}}).body)
            assert (graded["score"], graded["success"]) == (0.0, False)
            assert graded["details"] == {"exception": failed}


@pytest.mark.parametrize("grading", ["spin", "spin_after_a_step"])
def test_a_grading_that_computes_for_ever_ends_alone_in_a_shared_worker(grading: str) -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True, shared_evaluate_cpu_s=0.5) as box:
        box.create("clever")
        pid = json.loads(box.create("neighbour").body)["info"]["pid"]
        box.act("clever", do="sleep", seconds=0)
        graded = box.request(
            Op.EVALUATE, "clever", meta={"deadline_s": 100}, body={"grading": {grading: True}}
        )
        if grading == "spin":
            assert error_code(graded) == "grader_failed"
        else:
            verdict = json.loads(graded.body)
            assert (verdict["score"], verdict["details"]) == (0.0, {"exhausted": "computation"})
        assert box.step("neighbour", {"do": "sleep", "seconds": 0}).op is Op.REPLY
        assert [process["pid"] for process in box.processes() if process["role"] == "worker"] == [pid]


def test_a_grading_that_computes_for_ever_before_any_action_is_the_graders_fault() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True, shared_evaluate_cpu_s=0.5) as box:
        box.create("idle")
        spins = {"grading": {"spin": True}}
        assert (
            error_code(box.request(Op.EVALUATE, "idle", meta={"deadline_s": 100}, body=spins))
            == "grader_failed"
        )
        assert json.loads(box.request(Op.EVALUATE, "idle", body={"grading": {}}).body)["score"] == 0.0


@pytest.mark.parametrize("action", [None, "sleep", "exhaust", "raise"])
def test_a_grader_that_fails_without_the_agent_too_is_the_tasks_fault(action: str | None) -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("blameless")
        if action is not None:
            box.step("blameless", {"do": action, **({"seconds": 0} if action == "sleep" else {})})
        graded = box.request(Op.EVALUATE, "blameless", body={"grading": {"raise": True}})
        assert error_code(graded) == "grader_failed"


def test_what_the_machine_does_to_the_proof_of_a_failed_grading_is_no_proof() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("clever")
        box.act("clever", do="sleep", seconds=0)
        grading = {"raise_after_a_step": True, "break": True}
        graded = json.loads(box.request(Op.EVALUATE, "clever", body={"grading": grading}).body)
        assert graded["score"] == 0.0


@pytest.mark.parametrize(
    ("grading", "code"),
    [({"fail": "deadline_exceeded"}, "deadline_exceeded"), ({"break": True}, "sandbox_failed")],
    ids=["a busy machine", "a broken sandbox"],
)
def test_what_the_machine_does_to_the_grader_is_no_score_after_exhaustion_either(
    grading: dict[str, object], code: str
) -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("greedy")
        box.step("greedy", {"do": "exhaust"})
        assert error_code(box.request(Op.EVALUATE, "greedy", body={"grading": grading})) == code


def test_the_clock_of_a_frame_runs_only_while_it_is_at_work() -> None:
    with runner_box("tests.fakes.agent_world", many_per_worker=True) as box:
        box.create("a")
        box.create("b")
        nap = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 0.5})}}
        quick = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 0})}}
        first = box.send(Op.STEP, "a", meta={"deadline_s": 5}, body=nap)
        second = box.send(Op.STEP, "b", meta={"deadline_s": 0.3}, body=quick)
        assert box.answer(first).op is Op.REPLY
        assert box.answer(second).op is Op.REPLY


def test_a_release_does_not_wait_for_a_running_step(agent_box: RunnerBox) -> None:
    agent_box.create("busy")
    body = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 60})}}
    step = agent_box.send(Op.STEP, "busy", meta={"deadline_s": 60}, body=body)
    assert agent_box.release("busy")
    assert error_code(agent_box.answer(step)) == "instance_lost"


def test_a_reset_answers_what_was_running(agent_box: RunnerBox) -> None:
    agent_box.create("running")
    body = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 60})}}
    step = agent_box.send(Op.STEP, "running", meta={"deadline_s": 60}, body=body)
    assert agent_box.reset().meta["clean"]
    assert error_code(agent_box.answer(step)) == "instance_lost"
    assert not agent_box.events
