"""The resources of a machine: GPUs, their memory, host memory, shared memory and disk."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import ConfigError
from trainer.weight_sync.snapshots import SHARED_MEMORY

GIB = 1 << 30
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Names of the instructions on x86-64 and, the last one, on aarch64."""
_DRIVER = Path("/proc/driver/nvidia/version")
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """One of the machines of a cluster, all alike; sizes in bytes, None where unknown."""

    gpus: int
    gpu_memory: int | None
    """Total memory of each GPU."""
    host_memory: int | None = None
    shared_memory: int | None = None
    """Free in /dev/shm."""
    disk: int | None = None
    """Free space where runs are kept."""
    count: int = 1
    """Number of machines."""
    bfloat16: bool | None = None
    """Whether its processors multiply in bfloat16."""


def bytes_of(text: str) -> int:
    """Parse a size such as ``80GiB`` or ``64 GB``. Raises ConfigError."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise ConfigError(f"{text!r} is not a size; write it as 80GiB or 80GB")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def this_machine(root: Path) -> Machine:
    """Return the machine that this process runs on, with the free space of the disk that ``root`` is on."""
    import torch

    count = torch.cuda.device_count()
    smallest = min(
        (torch.cuda.get_device_properties(index).total_memory for index in range(count)), default=None
    )
    return Machine(
        gpus=count,
        gpu_memory=smallest,
        host_memory=_host_memory(),
        shared_memory=free_shared_memory(),
        disk=shutil.disk_usage(_existing(root.absolute())).free,
        bfloat16=multiplies_in_bfloat16(),
    )


def multiplies_in_bfloat16(description: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Return whether the processors have instructions for it; None where the kernel does not list them."""
    try:
        found = re.search(
            r"^(?:flags|Features)\s*:(.*)$", description.read_text(errors="replace"), re.MULTILINE
        )
    except OSError:
        return None
    return None if found is None else not _BFLOAT16.isdisjoint(found[1].split())


def free_shared_memory() -> int | None:
    """Return the free bytes in /dev/shm; None where it does not exist."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None


def nvidia_driver(file: Path = _DRIVER) -> str | None:
    """Return the version of the kernel's NVIDIA driver; None without one."""
    try:
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", file.read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None


def _host_memory() -> int:
    """Return the machine's memory, or the container's limit."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CGROUP.read_text(encoding="ascii").strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdigit() else whole


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)
