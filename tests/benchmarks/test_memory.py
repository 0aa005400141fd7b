"""Memory of boxes, as the benchmarks count it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tests.benchmarks.box_kinds import memory_since
from tests.benchmarks.limits import Supervisor

MIB = 1024 * 1024
HELD = f"x = bytearray(b'x') * (100 * {MIB})\nprint(flush=True)\nimport time; time.sleep(600)"
FORKED = HELD.replace("print", "__import__('os').fork(); print")


@contextmanager
def holding(code: str, lines: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A process of this one, and whatever it forks, in a session of their own."""
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        for _ in range(lines):
            process.stdout.readline()
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_memory_of_boxes_is_that_of_the_processes_below_this_one() -> None:
    before = set(psutil.pids())
    with holding(HELD):
        assert memory_since(before) > 100


def test_memory_of_other_programs_is_not_that_of_a_box() -> None:
    # Its parent ends at once, so that it is no descendant of this process.
    orphan = f"import os\nif os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)\n{HELD}"
    before = set(psutil.pids())
    with holding(orphan, lines=2) as parent:
        parent.wait()
        assert memory_since(before) < 50


def test_pages_that_processes_of_boxes_share_count_once() -> None:
    with holding(FORKED, lines=2):
        _, boxes_kib = Supervisor(None, "echo", "echo-10").memory_kib()  # type: ignore[arg-type]
    assert 100 < boxes_kib / 1024 < 200
