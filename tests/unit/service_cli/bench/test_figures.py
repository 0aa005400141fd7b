import os
import signal
import subprocess
import sys

import pytest

from service_cli.bench.context import Sizes, medians, percentiles, rounded
from service_cli.bench.machine import available_memory_mb, describe_machine
from service_cli.bench.processes import CpuSnapshot, CpuUse, cpu_snapshot, memory_mb
from service_cli.bench.suites import SUITES
from tests.harness.part_processes import processes_of
from tests.harness.waiting import wait_until


def test_a_spread_stands_beside_its_yardstick() -> None:
    figures = percentiles([1.0, 2.0, 3.0, 4.0], 0.5)
    assert figures == {"p50_ms": 2.0, "p95_ms": 4.0, "yardstick_p50_ms": 0.5, "ratio_p50": 4.0}


def test_rounds_are_joined_by_their_medians() -> None:
    assert medians([{"a": 1.0}, {"a": 9.0}, {"a": 2.0}]) == {"a": 2.0}
    with pytest.raises(TypeError, match="not a number"):
        medians([{"a": "fast"}])


def test_figures_have_four_digits() -> None:
    assert rounded({"a": {"b": 0.123456}, "c": 12345.6, "d": 3, "e": None}) == {
        "a": {"b": 0.1235},
        "c": 12350.0,
        "d": 3,
        "e": None,
    }


def test_cpu_between_two_looks_counts_new_processes() -> None:
    before = CpuSnapshot({(1, 0): CpuUse("gateway", 0, 5.0)})
    after = CpuSnapshot({(1, 0): CpuUse("gateway", 0, 7.0), (3, 0): CpuUse("runner", 0, 2.0)})
    assert before.until(after) == {"gateway": 2.0, "runner": 2.0}


def test_a_process_that_ended_counts_once_in_the_parent_that_waited_for_it() -> None:
    before = CpuSnapshot({(1, 0): CpuUse("runner", 0, 5.0), (2, 0): CpuUse("runner", 1, 1.0)})
    # The parent used 0.5 itself, and waited for a child that used 3 in all.
    after = CpuSnapshot({(1, 0): CpuUse("runner", 0, 8.5)})
    assert before.until(after) == {"runner": 2.5}


def test_a_process_that_nobody_waited_for_is_forgotten() -> None:
    before = CpuSnapshot({(1, 0): CpuUse("runner", 0, 5.0), (2, 0): CpuUse("shim", 77, 1.0)})
    after = CpuSnapshot({(1, 0): CpuUse("runner", 0, 6.0)})
    assert before.until(after) == {"runner": 1.0}


def test_processes_are_known_by_their_command_lines() -> None:
    code = "import time; time.sleep(60)"
    marked = subprocess.Popen([sys.executable, "-c", code, "sandbox_service.runner"])
    try:
        # A child has its command line a moment after it was started.
        wait_until(lambda: marked.pid in processes_of("runner"))
        uses = {pid: use.part for (pid, _), use in cpu_snapshot().uses.items()}
        assert uses[marked.pid] == "runner"
        assert os.getpid() not in processes_of("runner")
        assert (memory_mb("runner") or 0.0) > 0
    finally:
        marked.kill()
        marked.wait()


def test_what_a_box_starts_belongs_to_the_box() -> None:
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    marked = subprocess.Popen(
        [sys.executable, "-c", code, "sandbox_service.runner"], stdout=subprocess.PIPE, text=True
    )
    assert marked.stdout is not None
    child = int(marked.stdout.readline())
    try:
        assert {marked.pid, child} <= set(processes_of("runner"))
    finally:
        os.kill(child, signal.SIGKILL)
        marked.kill()
        marked.communicate()


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine["cores"]
    assert available_memory_mb() > 0


def test_quick_sizes_are_smaller_in_everything() -> None:
    quick, full = Sizes.quick(), Sizes()
    for name in Sizes.__dataclass_fields__:
        assert 1 <= getattr(quick, name) <= getattr(full, name), name


def test_every_suite_says_what_it_measures() -> None:
    assert all(suite.measure.__doc__ for suite in SUITES.values())
