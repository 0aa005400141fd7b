"""Read from /proc how much processor time a group of processes has used, and whether it wants more."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
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


def usage_of(roots: Collection[int], uid: int | None = None, enough_s: float = math.inf) -> CpuUsage:
    """Look at all processes of ``uid``, wherever they are; without one, at what is below ``roots``.

    The look ends early at ``enough_s`` of processor time: beside a fork bomb a whole one takes seconds.
    """
    # What an agent starts cannot change its user id, so everything below the roots has it.
    pids: Iterable[int] = tree(roots) if uid is None else _holders(uid, roots)
    cpu_s, runnable = 0.0, False
    for pid in pids:
        if cpu_s >= enough_s:
            break
        fields = _stat(f"/proc/{pid}/stat")
        if fields:
            cpu_s += sum(map(int, fields[_TIMES])) * _TICK_S
            runnable = runnable or _wants(pid, fields)
    return CpuUsage(cpu_s, runnable)


def _holders(uid: int, roots: Collection[int]) -> Iterator[int]:
    # A daemon that left its tree is found by its user id.
    yield from roots
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (pid := int(name)) not in roots:
            process = look_up(pid)
            if process is not None and uid in process.uids:
                yield pid


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
