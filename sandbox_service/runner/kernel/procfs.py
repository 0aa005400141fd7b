"""Read processes from /proc: their user ids, their children, and how much memory they hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple


class ProcessEntry(NamedTuple):
    """One line of the process table."""

    pid: int
    parent: int
    uids: frozenset[int]
    """Real, effective, saved and file system user id."""
    zombie: bool


def snapshot() -> dict[int, ProcessEntry]:
    """Return every process of the process table, by pid."""
    found: dict[int, ProcessEntry] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            process = look_up(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def look_up(pid: int) -> ProcessEntry | None:
    """Return one process, or None."""
    text = read_proc(f"/proc/{pid}/status")
    if not text:
        return None
    zombie, parent, uids = False, 0, frozenset[int]()
    # A process chooses its name, which is the first line; the kernel escapes line ends in it.
    for line in text.split(b"\n"):
        if line.startswith(b"State:"):
            zombie = line.split()[1] in (b"Z", b"X")
        elif line.startswith(b"PPid:"):
            parent = int(line.split()[1])
        elif line.startswith(b"Uid:"):
            uids = frozenset(map(int, line.split()[1:5]))
            break
    return ProcessEntry(pid, parent, uids, zombie)


def descendants(processes: dict[int, ProcessEntry], roots: Iterable[int]) -> set[int]:
    """Return those of ``roots`` that live, and everything below them."""
    below: dict[int, list[int]] = {}
    for process in processes.values():
        below.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in processes]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += below.get(pid, ())
    return found


def children() -> list[int]:
    """Direct children of the calling process, whose only thread this must be."""
    # proc(5) calls this list unreliable, because children that vanish while it is read hide others. Here none
    # vanishes: a child leaves the list when its parent reaps it, and its parent is this thread.
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:  # noqa: PTH123
            return [int(pid) for pid in file.read().split()]
    except OSError:
        own = os.getpid()
        return [process.pid for process in snapshot().values() if process.parent == own]


def tree(roots: Iterable[int]) -> set[int]:
    """``roots`` and everything below them, from parents to children; what moves meanwhile may be missed."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            try:
                waiting += _children_of(pid)
            except OSError:
                if os.path.exists(f"/proc/{pid}/task"):  # noqa: PTH110
                    # The process lives: this kernel was built without CONFIG_PROC_CHILDREN.
                    return descendants(snapshot(), [*found, *waiting])
    return found


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
            found += map(int, file.read().split())
    return found


def has_children(pid: int) -> bool:
    """Return whether a process may have children; True when the kernel does not say."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
                if file.read(1):
                    return True
    except OSError:
        return True
    return False


def is_stopped(pid: int) -> bool:
    """Return whether no thread of a process can run: each is stopped, about to be, dead or gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return True
    states = {
        thread: read_proc(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2][1:2] for thread in threads
    }
    awake = [thread for thread, state in states.items() if state not in b"TtZX"]
    if not awake:
        return True
    # A thread that waits in the kernel, as a parent does for its vforked child, takes no signal there. It
    # stops on the way out: when a stop is pending, or has stopped another thread of its process already.
    if any(states[thread] != b"D" for thread in awake):
        return False
    stopping = b"T" in states.values()
    return stopping or all(_stop_is_pending(f"/proc/{pid}/task/{thread}/status") for thread in awake)


def _stop_is_pending(path: str) -> bool:
    pending = 0
    for line in read_proc(path).split(b"\n"):
        if line.startswith((b"SigPnd:", b"ShdPnd:")):
            pending |= int(line.split()[1], 16)
    return bool(pending >> (signal.SIGSTOP - 1) & 1)


def memory(pid: int) -> dict[str, int | None]:
    """Resident and proportional set size in KiB; None where the kernel does not let us look."""
    sizes: dict[str, int | None] = {"rss_kib": None, "pss_kib": None}
    for line in read_proc(f"/proc/{pid}/smaps_rollup").split(b"\n"):
        name, _, value = line.partition(b":")
        if name in (b"Rss", b"Pss"):
            sizes[f"{name.decode().lower()}_kib"] = int(value.split()[0])
    if sizes["rss_kib"] is None:
        fields = read_proc(f"/proc/{pid}/statm").split()
        if len(fields) > 1:
            sizes["rss_kib"] = int(fields[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    return sizes


def read_proc(path: str) -> bytes:
    """Return the content of a file of /proc; empty when the process is gone or closed to us."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
