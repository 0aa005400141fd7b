"""Read from /proc how much processor time a group of processes has used, and whether it wants more."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from .procfs import look_up, read_proc, tree

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command's name.
_STATE, _THREADS = 0, 17
_TIMES = slice(11, 15)
"""User and system time of its own, then of the children that it waited for."""


@dataclass(frozen=True, slots=True)
class CpuUsage:
    """A look at a group of processes."""

    cpu_s: float = 0.0
    """Processor time so far of those that live, and of what they waited for."""
    runnable: bool = False
    """Whether a thread runs or waits for a processor."""

    def __add__(self, other: CpuUsage) -> CpuUsage:
        return CpuUsage(self.cpu_s + other.cpu_s, self.runnable or other.runnable)


def usage_of(roots: Iterable[int], uid: int | None = None) -> CpuUsage:
    """Look at ``roots`` with everything below them and, wherever they are, at all processes of ``uid``."""
    pids = tree(roots)
    if uid is not None:
        pids |= _holders(uid)
    cpu_s, runnable = 0.0, False
    for pid in pids:
        fields = _stat(f"/proc/{pid}/stat")
        if fields:
            cpu_s += sum(map(int, fields[_TIMES])) * _TICK_S
            runnable = runnable or _wants(pid, fields)
    return CpuUsage(cpu_s, runnable)


def _holders(uid: int) -> set[int]:
    # A daemon that left its tree is found by its user id.
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return {pid for pid in pids if (process := look_up(pid)) is not None and uid in process.uids}


def _wants(pid: int, leader: list[bytes]) -> bool:
    if leader[_STATE] == b"R" or int(leader[_THREADS]) < 2:
        return leader[_STATE] == b"R"
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return False
    return any(_stat(f"/proc/{pid}/task/{thread}/stat")[:1] == [b"R"] for thread in threads)


def _stat(path: str) -> list[bytes]:
    """Return the fields after the command's name; none when the process is gone."""
    # From the last bracket on: a process chooses its name, and brackets and spaces in it are not escaped.
    return read_proc(path).rpartition(b")")[2].split()
