"""Hostile code in a gVisor box: what gVisor's kernel allows beyond Linux's, and what the sandbox itself has.

``test_hostile_code.py`` has what all kinds of box have in common.
"""

import time
from pathlib import Path

import psutil
import pytest

from tests.harness.boxes import episode, need_gvisor
from tests.harness.busy import busy_cpu, on_the_busy_cpu
from tests.harness.hostile_boxes import STATE_DIR_PREFIX, in_a_box


@pytest.fixture(autouse=True)
def gvisor():
    need_gvisor()


LEAVE_NUMBERS = """
import contextlib, os
others = [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]
def numbers():
    return [(os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid)) for pid in others]
before = numbers()
for pid in others:
    for leave in (
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 7),
        lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 7),
        lambda: os.setpriority(os.PRIO_USER, os.stat(f'/proc/{pid}').st_uid, 7),
        lambda: os.sched_setaffinity(pid, [min(os.sched_getaffinity(0))]),
    ):
        with contextlib.suppress(OSError):
            leave()
print(len(others) > 3, numbers() == before)
"""


def test_no_number_can_be_left_in_the_scheduling_of_another_process():
    """gVisor stores niceness and cores of any process for anybody, and a later solution could read them."""

    async def attack(box):
        one, two = await episode(box, name="one"), await episode(box, name="two")
        # A neighbour's session is a process of another user id, as the runner is.
        assert (await two.run(shell="echo alive"))["output"] == "alive\n"
        return await one.python(LEAVE_NUMBERS)

    assert in_a_box("gvisor", attack) == "True True\n"


def test_a_process_may_still_choose_its_own_niceness_and_cores():
    code = (
        "import os\n"
        "os.nice(3)\n"
        "os.sched_setaffinity(0, os.sched_getaffinity(0))\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0))"
    )

    async def attack(box):
        return await (await episode(box)).python(code)

    assert in_a_box("gvisor", attack) == "3\n"


SURROUNDINGS = """
print(open('/proc/version').read(), open('/proc/self/mountinfo').read(), open('/proc/self/cgroup').read())
"""


def test_nothing_of_the_host_is_named_in_proc():
    async def attack(box):
        return await (await episode(box)).python(SURROUNDINGS)

    said = in_a_box("gvisor", attack)
    assert Path("/proc/version").read_text().split()[2] not in said
    assert STATE_DIR_PREFIX not in said
    assert "training-sandbox" not in said


def test_what_an_escape_would_find_itself_in_has_a_filter_and_namespaces_of_its_own():
    """gVisor's kernel and its server of files are processes of the host."""

    async def inspect(box):
        await episode(box)
        return [
            (_status(process.pid), _namespaces(process.pid))
            # Other boxes' processes may end meanwhile: they have None in place of their words.
            for process in psutil.process_iter(["name", "cmdline"])
            if process.info["name"] == "exe"
            # Without root, runsc starts itself again in a user namespace, and waits there for the two.
            and {"boot", "gofer"} & set(words := process.info["cmdline"] or ())
            and any(box.sandbox_id in word for word in words)
        ]

    found = in_a_box("gvisor", inspect)
    own = _namespaces("self")
    assert len(found) == 2
    for status, namespaces in found:
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert not own & namespaces


def _status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def _namespaces(pid):
    return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("ipc", "mnt", "net", "uts")}


COMPUTE = "for _ in range({rounds}): pass\nprint('done')"
TIME_S = 1.5
"""Of a cell that is given a third of it to compute and waits for most of what it takes."""


def rounds_in(seconds: float) -> int:
    """Rounds of an empty loop that take so long if nothing else gets the processor."""
    rounds = 20_000
    quickest_s = min(time_of(rounds) for _ in range(100))
    return round(seconds / quickest_s * rounds)


def time_of(rounds: int) -> float:
    started = time.perf_counter()
    for _ in range(rounds):
        pass
    return time.perf_counter() - started


def test_a_wait_for_a_processor_which_gvisor_reports_as_computing_is_not_charged():
    code = COMPUTE.format(rounds=rounds_in(TIME_S / 3))

    async def compute(box):
        one = await episode(box)
        assert (await one.python("pass")) == ""
        with busy_cpu(others=8):
            return await one.run(python=code, timeout=TIME_S)

    with on_the_busy_cpu():
        found = in_a_box("gvisor", compute)
    assert (found["output"], found["timed_out"]) == ("done\n", False)
    assert found["duration_s"] > TIME_S
