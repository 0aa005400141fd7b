"""Measure the node: how many cores and how much memory its boxes may use."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox_service.pool.policy import NodeSize

_MIB = 1024**2
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Of control groups v2 and v1, as a container sees its own."""


def measure_node(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> NodeSize:
    """Return this node's size: cores this process may run on, memory less a container's limit."""
    limits = [_physical_memory(proc), *(_limit(cgroups / name) for name in _MEMORY_LIMITS)]
    return NodeSize(
        cores=len(os.sched_getaffinity(0)),
        memory_mib=min(limit for limit in limits if limit is not None) // _MIB,
    )


def _physical_memory(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    raise LookupError(f"no MemTotal in {proc / 'meminfo'}")


def _limit(path: Path) -> int | None:
    """Return a control group's limit; None where there is none ("max") or no such file."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
