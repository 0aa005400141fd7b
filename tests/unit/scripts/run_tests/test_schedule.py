"""Interruptions of ``make test``: the tests clean up, and nothing of them is left."""

import os
import signal

import pytest

# The clean-up waits for a file of this test, so that the interruption has surely been noticed.
WAITING = """
import time
from pathlib import Path
import pytest
@pytest.fixture
def place(tmp_path):
    yield tmp_path
    while not Path("noticed").exists(): time.sleep(0.01)
    Path("cleaned up").touch()
def test_waits(place):
    print("test process", __import__("os").getpid())
    while True: time.sleep(0.01)
"""
LATER = "def test_later(): pass\n"


@pytest.mark.parametrize(
    ("number", "whole_group", "status"),
    [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 143)],
    ids=["Ctrl-C", "SIGTERM to the process alone"],
)
def test_an_interruption_ends_the_tests_after_their_clean_up(start, tmp_path, number, whole_group, status):
    files = {"contract/test_a.py": WAITING, "unit/test_b.py": WAITING, "abuse/test_c.py": LATER}
    with start(files, "--jobs", "2", "--progress", "0.05", start_new_session=True) as process:
        waiting = set()
        for line in process.stdout:
            waiting |= {
                name for name in ("contract", "units") if f"-- {name}" in line and "test_waits" in line
            }
            if len(waiting) == 2:
                break
        (os.killpg if whole_group else os.kill)(process.pid, number)
        lines = iter(process.stdout)
        noticed = 0
        while noticed < 2:
            noticed += next(lines).endswith(": interrupted\n")
        (tmp_path / "noticed").touch()
        stdout, _ = process.communicate(timeout=120)
    assert process.returncode == status
    assert (tmp_path / "cleaned up").exists()
    assert "contract: interrupted in tests/contract/test_a.py::test_waits" in stdout
    assert "not run: 1 groups" in stdout
    assert list((tmp_path / "own").glob("tests-*")) == []
