"""Finding process trees and ending them, with real processes."""

import os
import subprocess
import sys
import time

import pytest

from local_processes.process_tree import end_tree, process_of, started_ticks

TREE = """
import os, sys, time
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
        break
os.write(1, b".")
time.sleep(60)
"""


@pytest.fixture
def tree():
    """A process with three children and three grandchildren in sessions of their own."""
    process = subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE)
    assert process.stdout is not None
    seen = b""
    while len(seen) < 7:
        seen += os.read(process.stdout.fileno(), 16)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def end_of_output(process):
    """True when no process holds the pipe any more."""
    return process.stdout.read() == b""


def test_a_tree_ends_whole(tree):
    assert end_tree(process_of(tree.pid), None, 10)
    assert end_of_output(tree)
    assert tree.wait() == -9


def test_another_process_of_the_same_id_is_left_alone(tree):
    started = started_ticks(process_of(tree.pid))
    assert process_of(tree.pid, started).pid == tree.pid
    stranger = process_of(tree.pid, started - 1)
    assert end_tree(stranger, None, 10)
    assert tree.poll() is None


def test_nothing_to_end_is_fine():
    assert end_tree(None, None, 1)
    assert end_tree(None, range(1_999_000_000, 1_999_000_010), 1)


def test_a_process_that_is_gone_has_no_entry():
    process = subprocess.Popen(["true"])
    process.wait()
    assert process_of(process.pid) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="user ids are changed by root only")
def test_every_process_of_the_user_ids_ends_whoever_its_parent_is():
    uid = 1_999_000_000
    orphan = subprocess.Popen(["sleep", "60"], user=uid, group=uid)
    assert end_tree(None, range(uid, uid + 1), 10)
    assert orphan.wait() == -9


@pytest.mark.skipif(os.geteuid() != 0, reason="user ids are changed by root only")
def test_a_hidden_process_is_found_by_its_user_id():
    uid = 1_999_000_001
    code = "import ctypes,os,time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.write(1, b'.'); time.sleep(60)"
    hidden = subprocess.Popen(["/usr/bin/python3", "-c", code], user=uid, group=uid, stdout=subprocess.PIPE)
    assert hidden.stdout is not None
    assert hidden.stdout.read(1) == b"."
    assert end_tree(None, range(uid, uid + 1), 10)
    assert hidden.wait() == -9
    hidden.stdout.close()


def test_a_start_time_tells_processes_apart():
    first = started_ticks(process_of(os.getpid()))
    assert first > 0
    assert first <= time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
