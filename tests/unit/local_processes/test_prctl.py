"""The kernel kills children whose parent ends; with real processes."""

import os
import signal
import subprocess
import sys

from local_processes.prctl import adopting_orphans, end_with_parent

PARENT = """
import subprocess, sys, time
from local_processes.prctl import end_with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"],
                         preexec_fn=end_with_parent)
time.sleep(600)
"""
ORPHAN = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=-3, stderr=-3).pid)"


def test_a_child_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"up\n"
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == b"", "the child, which held the other end of the pipe, has ended"
    parent.stdout.close()


def test_the_signal_is_the_callers_choice():
    child = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: end_with_parent(signal.SIGKILL),
    )
    assert child.communicate(b"\n")[0] == b"up\n", "nothing is sent while the parent lives"
    assert child.returncode == 0


def test_an_orphan_becomes_our_child():
    with adopting_orphans():
        made = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=True)
        orphan = int(made.stdout)
        os.kill(orphan, signal.SIGKILL)
        assert os.waitpid(orphan, 0)[0] == orphan
