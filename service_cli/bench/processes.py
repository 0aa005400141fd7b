"""CPU and memory of the service's processes, by part.

Parts are recognised by command lines: Ray names its workers after their actors. Processes that a box starts
belong to the box. Of processes that this one did not start, only those of the Docker engine count. A process
that ended between two snapshots counts if its parent waited for it.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

from local_processes.process_tree import processes, started_ticks

PART_MARKS: Mapping[str, tuple[str, ...]] = {
    "runner": ("sandbox_service.runner",),
    "gateway": ("ray::ServeReplica",),
    "supervisor": ("ray::Supervisor", "ray::SupervisorActor"),
    "haproxy": ("haproxy",),
    "shim": ("containerd-shim",),
    "engine": ("dockerd", "containerd"),
    "yardstick": ("service_cli.bench.yardstick",),
    "ray": ("ray::", "raylet", "gcs_server", "ray/dashboard", "ray/_private"),
}
"""Substrings of command lines by part; the first match counts."""

_BOX = "runner"
_ENGINE = ("engine", "shim")


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU seconds of a process, with the children that it waited for."""

    part: str
    parent: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CpuSnapshot:
    """CPU used so far, by process id and start time."""

    uses: Mapping[tuple[int, int], CpuUse]

    def until(self, later: CpuSnapshot) -> dict[str, float]:
        """Return the CPU seconds by part between two snapshots."""
        waited_for: dict[int, float] = defaultdict(float)
        for key, use in self.uses.items():
            if key not in later.uses:
                # The parent's time now includes the child's, of which this much was counted before.
                waited_for[use.parent] += use.seconds
        used: dict[str, float] = defaultdict(float)
        for key, use in later.uses.items():
            before = self.uses.get(key)
            counted = before.seconds + waited_for[key[0]] if before is not None else 0.0
            used[use.part] += max(0.0, use.seconds - counted)
        return dict(used)


def cpu_snapshot() -> CpuSnapshot:
    """Return the CPU time of every process that belongs to a part."""
    uses: dict[tuple[int, int], CpuUse] = {}
    for process, part in parts_of():
        with contextlib.suppress(psutil.Error), process.oneshot():
            key = process.pid, started_ticks(process)
            # Its own user and system time, and that of the children that it waited for.
            seconds = sum(process.cpu_times()[:4])
            uses[key] = CpuUse(part, process.ppid(), seconds)
    return CpuSnapshot(uses)


def parts_of() -> Iterator[tuple[psutil.Process, str]]:
    """Yield every process that belongs to a part, and the part."""
    parents: dict[int, int] = {}
    marked: dict[int, str] = {}
    found: list[psutil.Process] = []
    for process in processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            parents[process.pid] = process.ppid()
            found.append(process)
            if (part := _part_of(process)) is not None:
                marked[process.pid] = part
    for process in found:
        line = list(_line(process.pid, parents))
        part = next((marked[each] for each in line if each in marked), None)
        ours = os.getpid() in line[1:] or any(marked.get(each) in _ENGINE for each in line)
        if ours and part is not None and (process.pid in marked or part == _BOX):
            yield process, part


def _part_of(process: psutil.Process) -> str | None:
    """Return the part that the command line names."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return None
    return next((name for name, marks in PART_MARKS.items() if any(mark in command for mark in marks)), None)


def _line(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Yield a process and its ancestors."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def memory_mb(part: str) -> float | None:
    """Return the share of memory (PSS) of a part's processes; None where the kernel does not show it."""
    shares = [pss_mb(process) for process, found in parts_of() if found == part]
    return None if None in shares else sum(share for share in shares if share is not None)


def pss_mb(process: psutil.Process) -> float | None:
    """Return a process's share of memory: 0 when it is gone, None where the kernel does not show it."""
    try:
        return float(process.memory_full_info().pss) / 2**20
    except psutil.AccessDenied:
        return None
    except psutil.NoSuchProcess:
        return 0.0
