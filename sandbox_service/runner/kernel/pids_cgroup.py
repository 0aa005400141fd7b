"""Bound the processes of agents by a control group, where a user id's own limit is not enforced.

gVisor ignores RLIMIT_NPROC, and has the controller ``pids`` of control groups, version 1, inside the box.
"""

from __future__ import annotations

import os

_MEMBERS = "cgroup.procs"
_BOUND = "pids.max"


def make_group(folder: str, processes: int) -> None:
    """Make a group of at most ``processes`` processes and threads. Raises OSError."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    _write(f"{folder}/{_BOUND}", processes)


def join_group(folder: str) -> None:
    """Move the calling process, which must be root, and its later children into a group. Raises OSError."""
    _write(f"{folder}/{_MEMBERS}", os.getpid())


def _write(path: str, value: int) -> None:
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(b"%d" % value)
