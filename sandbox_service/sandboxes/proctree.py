"""Process trees by /proc: finding one's descendants, and ending them all.

Used where no namespace ends a box at one stroke. A process is known by its id and start time, so that a
later process of the same id is never taken for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProcessEntry", "end_tree", "entry_of"]

_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One line of the process table."""

    pid: int
    parent: int
    state: str
    started: int
    """Clock ticks since the machine's start."""


def entry_of(pid: int) -> ProcessEntry | None:
    """A process, or None when there is none of that id."""
    try:
        # The name in brackets may hold anything; what follows its last bracket does not.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return ProcessEntry(pid, int(fields[1]), fields[0], int(fields[19]))
    except (OSError, IndexError, ValueError):
        return None


def end_tree(root: ProcessEntry | None, uids: range | None, deadline_s: float) -> bool:
    """Kill a process, its descendants, and every process of ``uids``; True when none is left.

    A root that is gone is none, whoever has its id now. All are stopped before any is killed: a stopped
    process starts no other, and as long as none has died none has lost its parent and left the tree.
    """
    deadline = time.monotonic() + deadline_s
    while victims := _descendants(root, uids):
        running = [victim for victim in victims if victim.state not in "Tt"]
        late = time.monotonic() > deadline
        if running and not late:
            _send(running, signal.SIGSTOP)
        else:
            _send(victims, signal.SIGKILL)
            if late:
                return not _descendants(root, uids)
        time.sleep(_PAUSE_S)
    return True


def _descendants(root: ProcessEntry | None, uids: range | None) -> list[ProcessEntry]:
    """Living processes of the tree, the root included, and those of ``uids``."""
    table = {entry.pid: entry for entry in _processes()}
    standing = table.get(root.pid) if root is not None else None
    if standing is not None and root is not None and standing.started != root.started:
        standing = None

    def is_ours(entry: ProcessEntry) -> bool:
        if uids is not None and any(uid in uids for uid in _uids_of(entry.pid)):
            return True
        return standing is not None and _is_below(entry, standing, table)

    return [entry for entry in table.values() if entry.state not in "ZX" and is_ours(entry)]


def _is_below(entry: ProcessEntry, root: ProcessEntry, table: dict[int, ProcessEntry]) -> bool:
    ancestor: ProcessEntry | None = entry
    # The table is no snapshot: a process id that was used again could close a circle.
    for _ in range(len(table)):
        if ancestor is None or ancestor.pid == root.pid:
            break
        ancestor = table.get(ancestor.parent)
    return ancestor is not None and ancestor.pid == root.pid


def _uids_of(pid: int) -> list[int]:
    """Real, effective and saved user id. The owner of /proc/<pid> is none of them for a hidden process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        return [int(uid) for uid in status.partition("\nUid:")[2].split(None, 3)[:3]]
    except (OSError, ValueError):
        return []


def _processes() -> Iterator[ProcessEntry]:
    for name in os.listdir("/proc"):  # noqa: PTH208 (a Path for each of thousands)
        if name.isdigit() and (entry := entry_of(int(name))) is not None:
            yield entry


def _send(processes: list[ProcessEntry], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)
