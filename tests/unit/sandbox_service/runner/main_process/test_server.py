"""The handshake, the connection that comes back, and the end of a box."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from sandbox_service.wire.frames import Op
from tests.harness.runner_box import error_code, is_alive, runner_box
from tests.harness.waiting import wait_until

TASK = {"prompt": "hi", "steps": 3}


def test_a_frame_before_hello_is_refused() -> None:
    with runner_box() as box:
        other = socket.socket(socket.AF_UNIX)
        other.connect(box.path)
        first, box.socket = box.socket, other
        assert error_code(box.request(Op.PING)) == "unauthenticated"
        other.close()
        box.socket = first
        assert box.request(Op.PING).op is Op.REPLY


def test_a_second_connection_needs_the_token() -> None:
    with runner_box() as box:
        first, token = box.socket, box.token
        for wrong in ("0" * 32, "\ud800" * 32, "", 5):
            box.connect()
            box.token = wrong
            assert error_code(box.hello()) == "unauthenticated"
        box.socket, box.token = first, token
        assert box.request(Op.PING).op is Op.REPLY


def test_a_broken_connection_loses_no_instance() -> None:
    with runner_box() as box:
        box.create("a", TASK)
        box.step("a", "one")
        box.socket.close()
        box.connect()
        assert box.hello().op is Op.REPLY
        assert json.loads(box.step("a", "two").body)["step_index"] == 1


def test_an_answer_computed_while_nobody_listened_comes_after_the_next_hello() -> None:
    with runner_box("tests.fakes.agent_world", agent_code=True) as box:
        box.create("a")
        body = {"message": {"role": "assistant", "content": json.dumps({"do": "sleep", "seconds": 0.2})}}
        number = box.send(Op.STEP, "a", meta={"deadline_s": 20}, body=body)
        box.socket.close()
        time.sleep(0.4)
        box.connect()
        assert box.hello().op is Op.REPLY
        assert json.loads(box.answer(number).body)["step_index"] == 0


def test_a_step_that_is_sent_again_with_its_index_is_executed_once_and_answered_in_the_same_bytes() -> None:
    with runner_box() as box:
        box.create("a", TASK)
        first = box.step("a", "one", step_index=0)
        again = box.step("a", "one", step_index=0)
        assert (again.body, again.meta) == (first.body, first.meta)
        assert error_code(box.step("a", "other", step_index=0)) == "step_index_mismatch"
        assert json.loads(box.step("a", "two", step_index=1).body)["step_index"] == 1


def test_the_newest_connection_with_the_token_takes_over() -> None:
    with runner_box() as box:
        old = box.socket
        box.connect()
        assert box.hello().op is Op.REPLY
        assert old.recv(1) == b""
        old.close()


def test_a_configuration_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(AssertionError, match="sandbox_failed"), runner_box(workspace_root="relative"):
        pass


def test_a_world_that_cannot_be_imported_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no_such_world"), runner_box("tests.no_such_world"):
        pass


def test_shutdown_leaves_no_process_and_no_socket() -> None:
    with runner_box("tests.fakes.agent_world", agent_code=True) as box:
        box.create("a")
        box.act("a", do="python", code="import subprocess; subprocess.Popen(['sleep', '1000'])")
        pids = [process["pid"] for process in box.processes()]
        box.stop()
        assert not [pid for pid in pids if is_alive(pid)]
        assert not Path(box.path).exists()


def test_nothing_outlives_a_runner_that_is_killed() -> None:
    with runner_box("tests.fakes.agent_world", agent_code=True) as box:
        box.create("a")
        box.act("a", do="python", code="import subprocess; subprocess.Popen(['sleep', '1000'])")
        pids = [process["pid"] for process in box.processes()]
        box.process.kill()
        box.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_box_that_no_host_has_visited_for_long_ends_itself() -> None:
    with runner_box(orphan_timeout_s=0.1) as box:
        box.socket.close()
        assert box.process.wait(15) == 0


def test_a_host_that_does_not_read_its_answers_stops_being_read() -> None:
    with runner_box() as box:
        box.create("a", {"prompt": "hi", "steps": 1000})
        text = "x" * 1_000_000
        numbers: list[int] = []

        def flood() -> None:
            body = {"message": {"role": "assistant", "content": text}}
            numbers.extend(box.send(Op.STEP, "a", meta={"deadline_s": 60}, body=body) for _ in range(60))

        sender = threading.Thread(target=flood)
        sender.start()
        sender.join(0.5)
        assert sender.is_alive()
        assert box.resident_kib() < 120_000
        while sender.is_alive():
            box.take()
        assert all(box.answer(number).op is Op.REPLY for number in numbers)
