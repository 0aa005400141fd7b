"""Describe the machine of a measurement."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

_PACKAGES = ("ray", "fastapi", "uvicorn", "uvloop", "aiohttp", "httpx")


def describe_machine() -> dict[str, object]:
    """Return cores, memory, kernel, load and versions of packages."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": round(psutil.virtual_memory().total / 2**20),
        "available_memory_mb": round(available_memory_mb()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def available_memory_mb() -> float:
    """Return the memory in MiB that is available without swapping."""
    return float(psutil.virtual_memory().available) / 2**20


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
