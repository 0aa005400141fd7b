"""The time of a cell: computing and sleeping count, a wait for a processor does not."""

from __future__ import annotations

import subprocess
import sys

from sandbox_service.environments.appworld.box.alarm import Clocks
from tests.harness.busy import ON_A_BUSY_CPU, busy_cpu

_BLOCK = """
import threading, time
from sandbox_service.environments.appworld.box.alarm import TimeoutError, alarm

def compute(seconds):
    begun = time.thread_time()
    while time.thread_time() < begun + seconds: pass

def sleep(seconds):
    threading.Event().wait(seconds)

try:
    with alarm(1):
        {code}
except TimeoutError as error:
    print("late" if "after 1 seconds" in str(error) else error)
else:
    print("done")
"""


def outcome(code: str, command: tuple[str, ...] = ()) -> str:
    """Run code under an alarm of a second: ``done`` or ``late``."""
    done = subprocess.run(
        [*command, sys.executable, "-c", _BLOCK.format(code=code)],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    return done.stdout.strip()


def test_what_ends_in_time_is_left_alone() -> None:
    assert outcome("compute(0.1); sleep(0.1)") == "done"


def test_computing_for_ever_is_ended() -> None:
    assert outcome("compute(1000)") == "late"


def test_sleeping_for_ever_is_ended() -> None:
    assert outcome("sleep(1000)") == "late"


def test_computing_and_sleeping_add_up() -> None:
    assert outcome("while True: compute(0.05); sleep(0.05)") == "late"


def test_who_waits_for_a_processor_has_its_time_all_the_same() -> None:
    with busy_cpu():
        assert outcome("compute(0.5)", ON_A_BUSY_CPU) == "done"
        assert outcome("compute(1000)", ON_A_BUSY_CPU) == "late"


def test_time_that_a_thread_neither_used_nor_gave_up_is_not_charged() -> None:
    """As under the quota of a container: the kernel calls that neither waiting nor sleeping."""
    before = Clocks(wall_s=10.0, cpu_s=2.0, waited_s=1.0, sleeps=5)
    assert Clocks(wall_s=13.0, cpu_s=2.5, waited_s=1.0, sleeps=5).charge(before) == 0.5
    assert Clocks(wall_s=13.0, cpu_s=2.5, waited_s=2.0, sleeps=6).charge(before) == 2.0
