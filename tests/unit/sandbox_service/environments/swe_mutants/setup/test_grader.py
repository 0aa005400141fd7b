"""The hidden tests' program: how long the machine kept a process from running."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox_service.environments.swe_mutants.setup import grader
from sandbox_service.environments.swe_mutants.setup.grader import share_of_core, waiting_s
from tests.harness.busy import busy_cpu
from tests.harness.waiting import wait_until

SEVERAL = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core to choose")
STARVED = """\
import grader
def starve(*_):
    raise grader.StarvedTestsError("hardly any time")
grader._grade = starve
grader.main()
"""
_NOTABLE_NS = 20_000_000
Start = Callable[[str], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Give a function that starts a process, which computes until the test ends; return its id."""
    with ExitStack() as owned:

        def start_process(first: str) -> int:
            words = [sys.executable, "-I", "-S", "-c", f"import os; {first}\nwhile True: pass"]
            process = owned.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
            owned.callback(process.kill)
            return process.pid

        # More than there are cores, so that all of them wait at times.
        for _ in range(len(os.sched_getaffinity(0)) + 1):
            start_process("pass")
        yield start_process


def kernel_counts(pid: int) -> bool:
    """Return whether the kernel knows of a wait by which the process can be judged."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) > _NOTABLE_NS


def test_a_process_among_too_many_waits_for_a_core(start: Start) -> None:
    pid = start("pass")
    wait_until(lambda: waiting_s(pid) > _NOTABLE_NS / 1e9)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("os.nice(1)", id="priority"),
        pytest.param("os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", id="scheduling"),
        pytest.param("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", id="cores", marks=SEVERAL),
    ],
)
def test_a_process_that_changed_how_it_is_scheduled_counts_as_not_waiting(start: Start, change: str) -> None:
    pid = start(change)
    wait_until(lambda: kernel_counts(pid) and waiting_s(pid) == 0.0)


def test_a_process_of_which_the_kernel_tells_nothing_counts_as_not_waiting() -> None:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    process.wait()
    assert waiting_s(process.pid) == 0.0


def test_a_busy_loop_notices_that_it_shares_its_core() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with busy_cpu():
            wait_until(lambda: share_of_core() < 0.5)
    finally:
        os.sched_setaffinity(0, before)


def test_starved_tests_exit_with_a_status_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "grader.py").write_bytes(Path(grader.__file__).read_bytes())
    (tmp_path / "spec.json").write_text("{}")
    words = [sys.executable, "-c", STARVED]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (75, "no reward: hardly any time\n")
