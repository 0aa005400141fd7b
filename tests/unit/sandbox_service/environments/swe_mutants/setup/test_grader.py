"""The hidden tests' program: how long the machine kept a process from running."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox_service.environments.swe_mutants.setup.grader import waiting_s
from tests.harness.waiting import wait_until

SEVERAL = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core to choose")
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
