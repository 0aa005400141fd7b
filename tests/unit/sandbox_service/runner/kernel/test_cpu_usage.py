"""The processor time of groups of processes, read from real ones."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.kernel.cpu_usage import usage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SPENT_S = 0.2
ROUNDED_S = 0.03
"""The kernel counts in ticks of 10 ms and cuts off what is less, of user and of system time."""
SPEND = f"""
import os, sys, time
os.setuid(int(sys.argv[1]))
while time.process_time() < {SPENT_S}: pass
print(flush=True)
time.sleep(600)
"""
UID = 54321


@contextlib.contextmanager
def spent(count: int, uid: int) -> Iterator[list[int]]:
    """Processes that have computed for SPENT_S each and sleep now."""
    with contextlib.ExitStack() as stack:
        pids = []
        for _ in range(count):
            command = [sys.executable, "-I", "-S", "-c", SPEND, str(uid)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.send_signal, signal.SIGKILL)
            assert process.stdout is not None
            process.stdout.readline()
            pids.append(process.pid)
        while usage_of(pids).runnable:
            time.sleep(0.01)
        yield pids


def test_a_look_ends_when_it_has_found_enough() -> None:
    with spent(3, os.getuid()) as pids:
        whole, part = usage_of(pids), usage_of(pids, enough_s=SPENT_S / 2)
    assert whole.cpu_s >= 3 * (SPENT_S - ROUNDED_S)
    assert SPENT_S / 2 <= part.cpu_s < whole.cpu_s / 2


@pytest.mark.skipif(os.geteuid() != 0, reason="another user id takes root")
def test_all_processes_of_a_user_id_are_counted_and_each_once() -> None:
    with spent(2, UID) as pids:
        whole = usage_of(pids)
        assert usage_of([], UID) == usage_of(pids[:1], UID) == usage_of(pids, UID, math.inf) == whole
    assert whole.cpu_s >= 2 * (SPENT_S - ROUNDED_S)
