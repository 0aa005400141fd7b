"""Measure the memory of each process of the box, as far as the kernel reports it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.procfs import ProcessEntry, descendants, memory, snapshot

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject


def describe_processes(known: dict[int, str]) -> list[JsonObject]:
    """Return the runner and everything below it; ``known`` names launcher and zygote."""
    processes = snapshot()
    roles = {os.getpid(): "runner"} | known
    return [
        {"pid": pid, "role": _role(processes[pid], roles), **memory(pid)}
        for pid in sorted(descendants(processes, [os.getpid()]))
    ]


def _role(process: ProcessEntry, roles: dict[int, str]) -> str:
    if process.pid in roles:
        return roles[process.pid]
    return "worker" if roles.get(process.parent) == "zygote" else "agent"
