"""Copies of a process that are their source's siblings, in both ways of making them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
_PRELUDE = """
import ctypes, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel import fork_sibling
"""
_FAMILY = """
privileges.become_reaper()
top = os.getpid()
source = os.fork()
if source == 0:
    prepare()
    state = ["mine"]
    copy = fork_sibling.fork_sibling()
    if copy == 0:
        os.register_at_fork(after_in_child=lambda: None)
        state.append("copied")
        good = os.getppid() == top and threading.active_count() == 1 and state == ["mine", "copied"]
        os._exit(7 if good else 1)
    try:
        os.waitpid(copy, 0)
    except ChildProcessError:
        os._exit(8 if state == ["mine"] else 1)
    os._exit(1)
codes = {os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)}
print(sorted(codes))
"""


def run(code: str) -> str:
    command = [sys.executable, "-I", "-c", _PRELUDE + code, str(ROOT)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


@pytest.mark.parametrize(
    "prepare",
    [
        "def prepare(): pass",
        "def prepare(): fork_sibling._CLONE_CALL.clear()",
        "def prepare(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    ],
    ids=["one-call", "unknown-machine", "threads"],
)
def test_a_copy_is_a_child_of_the_parent_and_goes_its_own_way(prepare: str) -> None:
    assert run(prepare + _FAMILY) == "[7, 8]"


def test_a_copy_forks_and_signals_as_any_process_does() -> None:
    code = """
privileges.become_reaper()
source = os.fork()
if source == 0:
    if fork_sibling.fork_sibling() == 0:
        child = os.fork()
        if child == 0:
            os.abort()
        died = os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGABRT
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM if died else signal.SIGKILL)
    os._exit(0)
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)))
"""
    assert run(code) == "[-15, 0]"


@pytest.mark.skipif(os.geteuid() != 0, reason="root's processes are not counted; a user id must be taken")
@pytest.mark.parametrize("machine", ["", "fork_sibling._CLONE_CALL.clear()"], ids=["one-call", "unknown"])
def test_a_fork_that_the_kernel_refuses_is_an_error_and_nothing_else(machine: str) -> None:
    code = f"""
import resource
{machine}
os.setresuid(1999999999, 1999999999, 1999999999)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
before, opened = os.getpid(), os.listdir("/proc/self/fd")
try:
    fork_sibling.fork_sibling()
except OSError as error:
    print(type(error).__name__, os.getpid() == before, os.listdir("/proc/self/fd") == opened)
"""
    assert run(code) == "BlockingIOError True True"
