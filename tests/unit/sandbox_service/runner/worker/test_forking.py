"""The fork verb on instances with agent code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.runner_box import error_code, runner_box

if TYPE_CHECKING:
    from tests.harness.runner_box import RunnerBox


def fork(box: RunnerBox, source: str, copy: str) -> int:
    reply = box.request(Op.FORK, source, meta={"copy_id": copy, "deadline_s": 20})
    assert reply.op is Op.REPLY, reply.body
    index: int = reply.meta["step_index"]
    return index


def test_a_copy_has_the_state_the_session_and_the_files_of_its_source(
    agent_box: RunnerBox, instance: str
) -> None:
    agent_box.act(instance, do="python", code="import os\nx = [1]\nos.makedirs('d')\nos.chdir('d')")
    agent_box.act(instance, do="shell", command="echo one > f; ln -s f l; mkfifo p; chmod 600 f")
    assert fork(agent_box, instance, "copy") == 2
    workspace = agent_box.act("copy", do="workspace")
    assert workspace["instance"] == "copy"
    assert workspace["steps"] == 3
    seen = agent_box.act("copy", do="python", code="x.append(2); (x, os.getcwd(), os.environ['HOME'])")[
        "output"
    ]
    assert seen == f"([1, 2], '{workspace['workspace']}/d', '{workspace['workspace']}')\n"
    assert agent_box.act("copy", do="shell", command="cat l; ls")["output"] == "one\nd\nf\nl\n"
    assert agent_box.release("copy")


def test_source_and_copy_go_their_own_ways(agent_box: RunnerBox, instance: str) -> None:
    agent_box.act(instance, do="python", code="x = 1")
    fork(agent_box, instance, "copy")
    agent_box.act("copy", do="python", code="x = 2; open('f', 'w').write('copy')")
    agent_box.act(instance, do="python", code="open('f', 'w').write('source')")
    assert agent_box.act(instance, do="python", code="x, open('f').read()")["output"] == "(1, 'source')\n"
    assert agent_box.act("copy", do="python", code="x, open('f').read()")["output"] == "(2, 'copy')\n"
    assert agent_box.act("copy", do="control", name="kill")["value"] is None
    assert agent_box.act(instance, do="python", code="x")["output"] == "1\n"
    assert agent_box.release("copy")
    assert agent_box.act(instance, do="python", code="x")["output"] == "1\n"


def test_a_copy_outlives_its_source_and_can_be_copied(agent_box: RunnerBox) -> None:
    agent_box.create("source")
    agent_box.act("source", do="python", code="x = 7")
    fork(agent_box, "source", "first")
    assert agent_box.release("source")
    fork(agent_box, "first", "second")
    assert agent_box.release("first")
    assert agent_box.act("second", do="python", code="x")["output"] == "7\n"
    assert agent_box.release("second")


def test_an_instance_whose_agent_has_done_nothing_is_copied(agent_box: RunnerBox, instance: str) -> None:
    assert fork(agent_box, instance, "copy") == 0
    assert agent_box.act("copy", do="python", code="1")["output"] == "1\n"
    assert agent_box.release("copy")


def test_a_cell_of_the_copy_past_its_deadline_spares_the_source(agent_box: RunnerBox, instance: str) -> None:
    agent_box.act(instance, do="python", code="x = 1")
    fork(agent_box, instance, "copy")
    assert agent_box.act("copy", do="python", code="while True: pass", timeout_s=0.3)["timed_out"]
    assert agent_box.act(instance, do="python", code="x")["output"] == "1\n"
    assert agent_box.release("copy")


def test_a_session_that_does_not_take_part_fails_the_fork_and_nothing_else(drop: bool) -> None:
    with runner_box("tests.fakes.agent_world", drop=drop, agent_code=True) as box:
        box.create("a")
        box.act("a", do="python", code="import os; os.setsid = lambda: 1 / 0")
        reply = box.request(Op.FORK, "a", meta={"copy_id": "b", "deadline_s": 2})
        assert error_code(reply) == "fork_failed"
        assert error_code(box.step("b", "{}")) == "unknown_instance"
        assert json.loads(box.step("a", {"do": "workspace"}).body)["info"]["instance"] == "a"
        assert box.release("a")
        assert box.reset().meta == {"clean": True, "left": []}


@pytest.mark.parametrize("before", ["", "os.fork() or time.sleep(60); "], ids=["alone", "with a child"])
def test_an_instance_whose_session_has_ended_is_copied(
    agent_box: RunnerBox, instance: str, before: str
) -> None:
    end = "import os, threading, time\nthreading.Timer(0.1, lambda: os._exit(0)).start()\n"
    agent_box.act(instance, do="python", code=end + before + "x = 1; print(os.getpid())")
    agent_box.act(instance, do="shell", command="echo one > f; sleep 0.5")
    fork(agent_box, instance, "copy")
    for name in (instance, "copy"):
        assert agent_box.act(name, do="python", code="x")["died"]
        assert "NameError" in agent_box.act(name, do="python", code="x")["output"]
        assert agent_box.act(name, do="shell", command="cat f")["output"] == "one\n"
    assert agent_box.release("copy")


def test_a_session_that_may_make_no_process_goes_on_after_the_fork_has_failed(
    drop: bool, agent_box: RunnerBox, instance: str
) -> None:
    if not drop:
        pytest.skip("root's processes are not counted")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); x = 1"
    agent_box.act(instance, do="python", code=limit)
    reply = agent_box.request(Op.FORK, instance, meta={"copy_id": "copy", "deadline_s": 20})
    assert error_code(reply) == "fork_failed"
    assert agent_box.act(instance, do="python", code="x")["output"] == "1\n"


def test_the_worker_of_a_copy_is_killed_at_its_deadline(agent_box: RunnerBox, instance: str) -> None:
    fork(agent_box, instance, "copy")
    assert (
        error_code(agent_box.step("copy", {"do": "sleep", "seconds": 60}, deadline_s=0.3)) == "step_timeout"
    )
    assert agent_box.release("copy")
    assert agent_box.act(instance, do="workspace")["instance"] == instance


def test_an_instance_is_copied_after_refused_copies(agent_box: RunnerBox, instance: str) -> None:
    end = {"do": "end", "seal": "break"}
    assert error_code(agent_box.step(instance, end, step_index=0)) == "sandbox_failed"
    for name in ("one", "two", "three"):
        refused = agent_box.request(Op.FORK, instance, meta={"copy_id": name, "deadline_s": 20})
        assert error_code(refused) == "sandbox_failed"
    assert agent_box.step(instance, end, step_index=0).op is Op.REPLY
    assert fork(agent_box, instance, "copy") == 1
    graded = agent_box.request(Op.EVALUATE, "copy", meta={"deadline_s": 20}, body={})
    assert graded.op is Op.REPLY, graded.body
    assert agent_box.release("copy")
    assert {event.instance_id for event in agent_box.events}.isdisjoint({"one", "two", "three"})
