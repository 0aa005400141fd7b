"""CPU and memory of the service's processes, by part, read from /proc.

Parts are told by command lines: Ray names its workers after the actor they hold. What a box starts belongs to
the box. Of other services on the machine only those of the Docker engine count: they are nobody's children.
A process that ended between two looks counts where its parent waited for it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["PART_MARKS", "CpuLook", "CpuUse", "cpu_look", "memory_mb", "parts_of", "processes_of", "pss_mb"]

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
"""Part to what its processes' command lines hold; the first that fits counts."""

_PROC = Path("/proc")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_BOX = "runner"
_ENGINE = ("engine", "shim")
# Fields of /proc/PID/stat after the command's name.
_PARENT = 1
_TIMES = slice(11, 15)
"""User and system time of its own, then of the children that it waited for."""
_STARTED = 19


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU seconds of one process, the children that it waited for included."""

    part: str
    parent: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CpuLook:
    """CPU used so far, by process id and start time."""

    uses: Mapping[tuple[int, int], CpuUse]

    def until(self, later: CpuLook) -> dict[str, float]:
        """CPU seconds by part between two looks."""
        waited_for: dict[int, float] = defaultdict(float)
        for key, use in self.uses.items():
            if key not in later.uses:
                # Its parent has all of its time by now, of which this much was counted before.
                waited_for[use.parent] += use.seconds
        used: dict[str, float] = defaultdict(float)
        for key, use in later.uses.items():
            before = self.uses.get(key)
            counted = before.seconds + waited_for[key[0]] if before is not None else 0.0
            used[use.part] += max(0.0, use.seconds - counted)
        return dict(used)


def cpu_look() -> CpuLook:
    """CPU of every process that belongs to a part."""
    uses: dict[tuple[int, int], CpuUse] = {}
    for pid, part in parts_of():
        fields = _stat(pid)
        if fields is not None:
            seconds = sum(map(int, fields[_TIMES])) * _TICK_S
            uses[pid, int(fields[_STARTED])] = CpuUse(part, int(fields[_PARENT]), seconds)
    return CpuLook(uses)


def parts_of() -> Iterator[tuple[int, str]]:
    """Every process that belongs to a part, and the part."""
    parents: dict[int, int] = {}
    marked: dict[int, str] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or (fields := _stat(int(entry.name))) is None:
            continue
        pid = int(entry.name)
        parents[pid] = int(fields[_PARENT])
        part = _part_of(pid)
        if part is not None:
            marked[pid] = part
    for pid in parents:
        line = list(_line(pid, parents))
        part = next((marked[each] for each in line if each in marked), None)
        ours = os.getpid() in line[1:] or any(marked.get(each) in _ENGINE for each in line)
        if ours and part is not None and (pid in marked or part == _BOX):
            yield pid, part


def _part_of(pid: int) -> str | None:
    """What a command line says."""
    try:
        command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return next((name for name, marks in PART_MARKS.items() if any(mark in command for mark in marks)), None)


def _line(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """A process and its ancestors."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def processes_of(part: str) -> list[int]:
    """Ids of a part's processes."""
    return [pid for pid, found in parts_of() if found == part]


def memory_mb(part: str) -> float | None:
    """Share of memory (PSS) of a part's processes; None where the kernel does not let us look."""
    shares = [pss_mb(pid) for pid in processes_of(part)]
    return None if None in shares else sum(share for share in shares if share is not None)


def pss_mb(pid: int) -> float | None:
    """A process's share of memory; nothing when it is gone, None where the kernel does not let us look."""
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
    except PermissionError:
        return None
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0.0)


def _stat(pid: int) -> list[str] | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()
