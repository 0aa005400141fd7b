"""Measure the node: how many cores and how much memory its boxes may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sandbox_service.pool.policy import NodeSize

from .control_groups import CGROUPS, group_folders, read_number

_MIB = 1024**2
_PROC = Path("/proc")
_MEMORY_LIMITS = ("memory.max", "memory.limit_in_bytes")
"""Of control groups v2 and v1."""


def measure_node(kind: str, proc: Path = _PROC, cgroups: Path = CGROUPS) -> NodeSize:
    """Return the size of this node for boxes of a kind ("docker", "gvisor", "process").

    Docker's engine makes its boxes beside this process, so they have the machine. Others are bounded as
    this process is: by the cores that it may run on, and by its control groups and those above them.
    """
    cores, memory = os.cpu_count() or 1, _physical_memory(proc)
    if kind != "docker":
        cores = min([len(os.sched_getaffinity(0)), *_cores(proc / "self", cgroups)])
        memory = min([memory, *_memory(proc / "self", cgroups)])
    return NodeSize(cores=cores, memory_mib=memory // _MIB)


def _physical_memory(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    raise LookupError(f"no MemTotal in {proc / 'meminfo'}")


def _memory(proc: Path, cgroups: Path) -> Iterator[int]:
    """Yield the bounds on memory in bytes."""
    for folder in group_folders("memory", cgroups, proc):
        for name in _MEMORY_LIMITS:
            limit = read_number(folder / name)
            if limit is not None:
                yield limit


def _cores(proc: Path, cgroups: Path) -> Iterator[int]:
    """Yield the cores that the bounds on CPU time allow, a part of a core as a whole one."""
    for folder in group_folders("cpu", cgroups, proc):
        quota, period = _cpu_time(folder)
        if quota > 0 and period > 0:
            yield -(-quota // period)


def _cpu_time(group: Path) -> tuple[int, int]:
    """Return the microseconds of CPU time that a group has in each period, and the period; 0 for no bound."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return read_number(group / "cpu.cfs_quota_us") or 0, read_number(group / "cpu.cfs_period_us") or 0
    return (0, 0) if quota == "max" else (int(quota), int(period))
