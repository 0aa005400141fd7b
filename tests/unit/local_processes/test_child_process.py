"""A process is asked to end before it is killed."""

import signal
import subprocess
import sys

import pytest

from local_processes.child_process import end_process

_DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(3600)
"""


def test_a_process_ends_by_itself_when_it_is_asked_to() -> None:
    with subprocess.Popen(["sleep", "3600"]) as process:
        end_process(process, 60)
    assert process.returncode == -signal.SIGTERM


def test_a_process_that_does_not_end_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _DEAF], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_process(process, 0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_has_ended_is_left_alone() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        end_process(process, 60)
    assert process.returncode == 0


class Unkillable(subprocess.Popen[bytes]):
    """Outlives SIGKILL, as if it were in an uninterruptible sleep."""

    def wait(self, timeout: float | None = None) -> int:
        raise subprocess.TimeoutExpired("sleep", timeout or 0.0)


def test_a_process_that_outlives_its_kill_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    process = Unkillable(["sleep", "3600"])
    end_process(process, 0.0)
    assert f"and left: process {process.pid}" in caplog.text
    subprocess.Popen.wait(process)
