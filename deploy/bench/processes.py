"""CPU and memory of the service's processes, by part, read from /proc.

Parts are told by command lines: Ray names its workers after the actor they hold. A process that ends between
two looks takes the CPU of its last moments with it, so shares of short-lived workers are a little low.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["PART_MARKS", "CpuLook", "cpu_look", "memory_mb", "parts_of", "processes_of"]

PART_MARKS: Mapping[str, tuple[str, ...]] = {
    "runner": ("sandbox_service.runner",),
    "gateway": ("ray::ServeReplica",),
    "supervisor": ("ray::Supervisor", "ray::SupervisorActor"),
    "haproxy": ("haproxy",),
    "shim": ("containerd-shim",),
    "engine": ("dockerd", "containerd"),
    "yardstick": ("deploy.bench.yardstick",),
    "ray": ("ray::", "raylet", "gcs_server", "ray/dashboard", "ray/_private"),
}
"""Part to what its processes' command lines hold; the first that fits counts."""

_PROC = Path("/proc")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_USER_TICKS = 11
_SYSTEM_TICKS = 12


@dataclass(frozen=True, slots=True)
class CpuLook:
    """CPU seconds used so far, by process."""

    seconds: Mapping[tuple[int, str], float]

    def until(self, later: CpuLook) -> dict[str, float]:
        """CPU seconds by part between two looks."""
        used: dict[str, float] = defaultdict(float)
        for (pid, part), seconds in later.seconds.items():
            used[part] += max(0.0, seconds - self.seconds.get((pid, part), 0.0))
        return dict(used)


def cpu_look() -> CpuLook:
    """CPU of every process that belongs to a part, threads and waited-for children not counted twice."""
    seconds: dict[tuple[int, str], float] = {}
    for pid, part in parts_of():
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()
        ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        seconds[pid, part] = ticks * _TICK_S
    return CpuLook(seconds)


def parts_of() -> Iterator[tuple[int, str]]:
    """Every process that belongs to a part, and the part."""
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        part = next(
            (name for name, marks in PART_MARKS.items() if any(mark in command for mark in marks)), None
        )
        if part is not None:
            yield int(entry.name), part


def processes_of(part: str) -> list[int]:
    """Ids of a part's processes."""
    return [pid for pid, found in parts_of() if found == part]


def memory_mb(part: str) -> float | None:
    """Share of memory (PSS) of a part's processes; None where the kernel does not let us look."""
    total = 0
    for pid in processes_of(part):
        try:
            rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
        except PermissionError:
            return None
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024
