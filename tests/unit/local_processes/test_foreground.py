"""A command in the foreground: what a signal asks for is prepared while it still works."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from local_processes.foreground import end_session, run_until_stopped

PROGRAM = """
import sys
from local_processes.foreground import run_until_stopped
sys.exit(run_until_stopped(sys.argv[1:], lambda: print("emptied", flush=True)))
"""


def never() -> None:
    raise AssertionError("nothing has asked for the end")


def stopped(script: str, number: signal.Signals) -> tuple[int, list[str]]:
    """The exit code and the output of a shell's script that prints a line and then gets a signal.

    The output ends only when no process of the script is left.
    """
    command = [sys.executable, "-c", PROGRAM, "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(number)
        rest = process.stdout.read()
    return process.returncode, [first.strip(), *rest.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_after_its_end_was_prepared(number: signal.Signals) -> None:
    script = 'trap "echo ended; exit" TERM; echo works; while :; do sleep 0.1; done'
    assert stopped(script, number) == (0, ["works", "emptied", "ended"])


def test_no_process_of_the_command_is_left() -> None:
    assert stopped("sleep 1000 & echo works; wait", signal.SIGTERM) == (0, ["works", "emptied"])


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_command_that_ends_by_itself_gives_its_exit_code(script: str, code: int) -> None:
    assert run_until_stopped(["sh", "-c", script], never) == code


def test_a_command_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(OSError, match="no-such-command"):
        run_until_stopped(["/no-such-command"], never)


def test_a_preparation_that_fails_still_ends_the_command() -> None:
    program = PROGRAM.replace('print("emptied", flush=True)', "1 / 0")
    command = [sys.executable, "-c", program, "sh", "-c", "echo works; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        _, errors = process.communicate()
    assert (process.returncode, "ZeroDivisionError" in errors) == (1, True)


def test_what_survives_its_kill_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    sent = []

    def send(_: int, number: int) -> bool:
        sent.append(number)
        return True

    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    end_session(child, send, end_s=0.1, kill_s=0.2)
    assert [number for number in sent if number] == [signal.SIGTERM, signal.SIGKILL]
    assert f"still there 0.2 s after SIGKILL, and left: sleep ({child.pid})" in caplog.text
    child.kill()
    child.wait()
