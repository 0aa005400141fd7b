"""The verbs on instances, as a host sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io.event_loop import EventLoop
from sandbox_service.runner.main_process.instances import BoxInstances
from sandbox_service.wire.frames import Frame, Op
from tests.harness.runner_box import error_code, runner_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.harness.runner_box import RunnerBox

TASK = {"prompt": "hi", "steps": 2}


def test_an_episode_runs_from_create_to_release(echo_box: RunnerBox) -> None:
    created = echo_box.create("a", TASK)
    assert json.loads(created.body) == {
        "instance_id": "a",
        "environment": "echo",
        "task_id": "t",
        "observation": {"messages": [{"role": "user", "content": "hi"}]},
        "tools": [],
        "info": {"texts": "dialogue"},
    }
    first = echo_box.step("a", "hello")
    assert json.loads(first.body) == {
        "instance_id": "a",
        "step_index": 0,
        "observation": {"messages": [{"role": "user", "content": "hello"}]},
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "reward_terms": {},
        "info": {},
    }
    assert echo_box.step("a", "bye").meta["terminated"]
    verdict = echo_box.request(Op.EVALUATE, "a", body={"params": {}, "grading": {}})
    assert json.loads(verdict.body) == {
        "instance_id": "a",
        "score": 1.0,
        "success": True,
        "details": {"steps": 2},
    }
    assert (verdict.meta["score"], verdict.meta["success"]) == (1.0, True)
    assert echo_box.release("a")
    assert error_code(echo_box.step("a", "again")) == "unknown_instance"


def test_release_is_idempotent(echo_box: RunnerBox) -> None:
    echo_box.create("twice", TASK)
    assert echo_box.release("twice")
    assert echo_box.release("twice")
    assert echo_box.release("never-seen")


def test_an_id_is_taken_while_its_instance_lives(echo_box: RunnerBox) -> None:
    echo_box.create("same", TASK)
    assert error_code(echo_box.create("same", TASK)) == "duplicate_instance"
    echo_box.release("same")
    assert echo_box.create("same", TASK).op is Op.REPLY
    echo_box.release("same")


def test_an_action_after_the_end_is_refused(echo_box: RunnerBox) -> None:
    echo_box.create("done", {"prompt": "hi", "steps": 1})
    echo_box.step("done", "x")
    assert error_code(echo_box.step("done", "y")) == "instance_finished"
    echo_box.release("done")


def test_an_episode_is_truncated_at_its_last_step(echo_box: RunnerBox) -> None:
    echo_box.create("short", {"prompt": "hi", "steps": 9}, max_steps=2)
    assert not echo_box.step("short", "x").meta["truncated"]
    last = echo_box.step("short", "y").meta
    assert (last["truncated"], last["terminated"]) == (True, False)
    assert error_code(echo_box.step("short", "z")) == "instance_finished"
    echo_box.release("short")


def test_lone_surrogates_do_not_reach_the_host(echo_box: RunnerBox) -> None:
    echo_box.create("odd", TASK)
    assert json.loads(echo_box.step("odd", "a\ud800b").body)["observation"]["messages"][0]["content"] == "a?b"
    echo_box.release("odd")


def test_a_pure_data_instance_is_copied_in_its_worker(echo_box: RunnerBox) -> None:
    echo_box.create("original", {"prompt": "hi", "steps": 5})
    echo_box.step("original", "x")
    assert echo_box.request(Op.FORK, "original", meta={"copy_id": "copy"}).meta["step_index"] == 1
    assert json.loads(echo_box.step("copy", "y").body)["step_index"] == 1
    echo_box.step("copy", "y")
    assert json.loads(echo_box.step("original", "y").body)["step_index"] == 1
    assert error_code(echo_box.request(Op.FORK, "original", meta={"copy_id": "copy"})) == "duplicate_instance"
    echo_box.release("copy")
    assert echo_box.step("original", "z").op is Op.REPLY
    echo_box.release("original")


def test_instances_without_agent_have_no_files(echo_box: RunnerBox) -> None:
    echo_box.create("bare", TASK)
    reply = echo_box.request(Op.FILE_READ, "bare", meta={"path": "x", "max_bytes": 10})
    assert error_code(reply) == "files_unsupported"
    echo_box.release("bare")


@pytest.mark.parametrize("op", [Op.TRAJECTORY, Op.DRAIN], ids=lambda op: op.name)
def test_what_a_runner_does_not_serve_is_refused(echo_box: RunnerBox, op: Op) -> None:
    assert error_code(echo_box.request(op)) == "invalid_request"


def test_meta_that_does_not_fit_is_refused(echo_box: RunnerBox) -> None:
    echo_box.create("meta", TASK)
    assert error_code(echo_box.request(Op.FORK, "meta")) == "invalid_request"
    assert error_code(echo_box.request(Op.STEP, "meta", meta={"deadline_s": "soon"})) == "invalid_request"
    assert echo_box.step("meta", "still here").op is Op.REPLY
    echo_box.release("meta")


def test_reset_empties_the_box(echo_box: RunnerBox) -> None:
    for name in ("r1", "r2"):
        echo_box.create(name, TASK)
    assert echo_box.reset().meta == {"clean": True, "left": []}
    assert error_code(echo_box.step("r1", "x")) == "unknown_instance"
    assert echo_box.create("r1", TASK).op is Op.REPLY
    echo_box.release("r1")


def test_stats_name_the_processes(echo_box: RunnerBox) -> None:
    echo_box.create("counted", TASK)
    stats = json.loads(echo_box.request(Op.STATS).body)
    assert stats["instances"] == 1
    assert {process["role"] for process in stats["processes"]} == {"runner", "launcher", "zygote", "worker"}
    assert all(process["rss_kib"] > 0 for process in stats["processes"])
    echo_box.release("counted")


def test_a_world_that_fails_to_start_leaves_nothing(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        assert error_code(box.create("bad", {"raise": True})) == "task_invalid"
        assert error_code(box.step("bad", "{}")) == "unknown_instance"
        assert box.release("bad")
        assert {process["role"] for process in box.processes()} == {"runner", "launcher", "zygote"}


def test_user_ids_are_never_used_twice(drop: bool) -> None:
    if not drop:
        pytest.skip("instances share a user id here")
    with runner_box("tests.fakes.agent_world", drop=True, agent_code=True, uid_count=10) as box:
        seen = []
        for name in ("one", "two", "three"):
            box.create(name)
            seen.append(box.act(name, do="shell", command="id -u")["output"])
            assert box.release(name)
        assert len(set(seen)) == 3
        assert error_code(box.create("four")) == "sandbox_failed"


def test_a_box_holds_after_many_instances_what_it_held_after_the_first(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        held = []
        for _ in range(6):
            for name in ("a", "b"):
                box.create(name)
            box.act("a", do="python", code="1")
            box.act("a", do="shell", command="true")
            box.act("a", do="write", path="f", text="x")
            box.act("a", do="candidate", entry="tests.fakes.agent_world:double")
            box.act("a", do="close")
            assert box.request(Op.FORK, "a", meta={"copy_id": "c"}).op is Op.REPLY
            box.act("c", do="python", code="import os; os._exit(0)")
            box.step("b", {"do": "exit", "code": 1})
            for name in ("a", "b", "c"):
                assert box.release(name)
            pids = {process["pid"] for process in box.processes()}
            held.append([(pid, len(list(Path(f"/proc/{pid}/fd").iterdir()))) for pid in sorted(pids)])
        assert len(held[0]) == 3
        assert held[-1] == held[0]


class IdleZygote:
    """Takes every request and carries out none."""

    def send(self, *_: object) -> None:
        pass


class CleaningLauncher:
    """Has cleaned the box at once."""

    def reset(self, done: Callable[[bool, list[str]], None]) -> None:
        done(True, [])


@pytest.mark.parametrize("ended", [True, False])
def test_a_box_is_clean_after_a_reset_only_if_its_workers_have_ended(ended: bool) -> None:
    zygote: Any = IdleZygote()
    launcher: Any = CleaningLauncher()
    config = RunnerConfig(world_module="w", workspace_root="/w")
    box = BoxInstances(EventLoop(), config, zygote, launcher, {}, lambda _: None)
    answers: list[Frame] = []
    box.handle(Frame(Op.RESET, 1), answers.append)
    assert answers == []
    box.workers.all_ended(ended)
    assert [answer.meta for answer in answers] == [{"clean": ended, "left": [] if ended else ["workers"]}]


def test_without_descriptors_for_another_instance_the_others_go_on() -> None:
    few = ("prlimit", "--nofile=24:256")
    with runner_box("tests.fakes.agent_world", agent_code=True, command=few) as box:
        names = [f"i{number}" for number in range(24)]
        refused = next(reply for name in names if (reply := box.create(name)).op is Op.ERROR)
        assert error_code(refused) == "sandbox_failed"
        fork = {"copy_id": "copy", "deadline_s": 5}
        assert error_code(box.request(Op.FORK, "i0", meta=fork)) == "sandbox_failed"
        assert box.act("i0", do="workspace")["steps"] == 1
        assert box.release("i1")
        assert box.release("i2")
        assert box.request(Op.FORK, "i0", meta=fork).op is Op.REPLY
        assert box.act("copy", do="workspace")["steps"] == 2
