"""Find the processes below one process, or of some user ids, and end them all.

Used where no namespace ends a group of processes at once. A process is identified by its id and start time,
so that a later process with the same id is never taken for it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import psutil

from .waiting import Deadline

_PAUSE_S = 0.002
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DEAD = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_STOPPED = frozenset({psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})


def started_ticks(process: psutil.Process) -> int:
    """Return when a process started, in clock ticks since the machine's start.

    Unlike ``create_time``, which is a time of day, it stays the same when the clock is set, so it can be
    recorded. Raises psutil.NoSuchProcess.
    """
    # A fresh object, since psutil remembers the time of day that it computed first.
    created_s: float = psutil.Process(process.pid).create_time()
    ticks: int = round((created_s - psutil.boot_time()) * _TICKS_PER_S)
    return ticks


def process_of(pid: int, started: int | None = None) -> psutil.Process | None:
    """Return the process with this id, if there is one and it started at ``started``."""
    try:
        process = psutil.Process(pid)
        return process if started in (None, started_ticks(process)) else None
    except psutil.NoSuchProcess:
        return None


def processes() -> Iterator[psutil.Process]:
    """Yield every process of the machine. Unlike ``psutil.process_iter``, threads may call it at once."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.NoSuchProcess):
            yield psutil.Process(pid)


def is_dead(process: psutil.Process) -> bool:
    """Return whether a process has ended, also if its parent has not waited for it yet."""
    return _status(process) in _DEAD


def end_tree(root: psutil.Process | None, uids: range | None, deadline_s: float) -> bool:
    """Kill a process, its descendants, and every process of ``uids``; return True when none is left.

    All are stopped before any is killed: a stopped process starts no other, and as long as none has died,
    none has lost its parent and left the tree.
    """
    deadline = Deadline.after(deadline_s)
    while victims := _victims(root, uids):
        running = [victim for victim in victims if _status(victim) not in _STOPPED]
        late = deadline.passed
        for victim in running if running and not late else victims:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                victim.suspend() if running and not late else victim.kill()
        if late:
            return not _victims(root, uids)
        time.sleep(_PAUSE_S)
    return True


def _victims(root: psutil.Process | None, uids: range | None) -> list[psutil.Process]:
    """Return the living processes of the tree, the root included, and those of ``uids``."""
    found: set[psutil.Process] = set()
    if root is not None and root.is_running():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.update((root, *root.children(recursive=True)))
    if uids is not None:
        found.update(process for process in processes() if _belongs_to(process, uids))
    return [process for process in found if not is_dead(process)]


def _belongs_to(process: psutil.Process, uids: range) -> bool:
    """Look at the real, effective and saved id: the owner of /proc/PID is none of them if it is hidden."""
    try:
        return any(uid in uids for uid in process.uids())
    except psutil.Error:
        return False


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)
