"""Record which functions of a tree a process calls, with the time. Standard library only.

This text is put into a copy of the tree twice: as ``sitecustomize``, which the interpreter of each process of
a service or a training imports and which traces threads, and at the end of each package's ``__init__``, which
starts the trace of the thread that imports it. Forked processes inherit the trace. A record is a line
``nanoseconds pid depth path:line qualified_name``: a time of the machine's monotonic clock, and how many
functions of the tree are on the stack, itself included.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from types import CodeType, FrameType

FOLDER = "STRUCTURE_TRACE"
"""Environment variable with the folder of the records; without it only isolated interpreters record."""
APART_NS = 2_000_000
"""A function that was recorded is not recorded again so soon; windows that are measured are longer."""
FIRST_DESCRIPTOR = 600
_STDERR = 2


def start_trace(root: str, packages: tuple[str, ...], *, threads_only: bool = False) -> None:
    """Record calls of functions below ``root`` from now on, in this process and those it forks.

    With ``threads_only`` the calling thread goes on untraced, so that imports before the first package of the
    tree take no longer; threads that are started meanwhile may run functions of the tree later.
    """
    trace = threading.getprofile()
    if trace is None:
        opened = _target()
        if opened is None:
            return
        # A high number, which nobody takes for one of his own when he closes or passes on descriptors.
        target = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
        trace = _Trace(target, tuple(f"{root}/{package}/" for package in packages), len(root) + 1)
        threading.setprofile(trace)
    if not threads_only and sys.getprofile() is None:
        sys.setprofile(trace)


def _target() -> int | None:
    """Open where this process records; None if it does not."""
    folder = os.environ.get(FOLDER)
    if folder and not any(_is_daemon_of_ray(word) for word in sys.orig_argv):
        path = os.path.join(folder, f"{os.getpid()}.trace")  # noqa: PTH118 - pathlib is slow to import
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    if sys.flags.isolated:
        return _STDERR  # the log of a runner: a box sees no other file of the machine
    return None


def _is_daemon_of_ray(word: str) -> bool:
    """Return whether a command line's word is a script of Ray other than that of its workers."""
    return "/site-packages/ray/" in word and word.endswith(".py") and not word.endswith("/default_worker.py")


class _Trace:
    """A profile function."""

    def __init__(self, target: int, prefixes: tuple[str, ...], cut: int) -> None:
        self._target = target
        self._file = os.fstat(target).st_ino
        self._prefixes = prefixes
        self._cut = cut
        self._places: dict[str, str | None] = {}
        # Keyed by identity, because hashing a code object reads all of it; kept, so that none is reused.
        self._names: dict[int, tuple[CodeType, bytes]] = {}
        self._last: dict[int, int] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            place = self._place(code)
            if place is not None:
                self._record(frame, code, place)

    def _place(self, code: CodeType) -> str | None:
        """Return the path of a code's file relative to the tree, or None outside of it."""
        file = code.co_filename
        try:
            return self._places[file]
        except KeyError:
            place = file[self._cut :] if file.startswith(self._prefixes) else None
            self._places[file] = place
            return place

    def _record(self, frame: FrameType, code: CodeType, place: str) -> None:
        now = time.monotonic_ns()
        key = id(code)
        if now - self._last.get(key, 0) < APART_NS:
            return
        self._last[key] = now
        if key not in self._names:
            name = f"{place}:{code.co_firstlineno} {code.co_qualname}\n"
            self._names[key] = (code, name.encode())
        record = b"%d %d %d " % (now, os.getpid(), self._depth(frame)) + self._names[key][1]
        for descriptor in (self._target, _STDERR):
            try:
                # A process may have closed it, and another file may have its number.
                if os.fstat(descriptor).st_ino == self._file:
                    os.write(descriptor, record)
                    return
            except OSError:
                continue

    def _depth(self, frame: FrameType | None) -> int:
        """Return the number of the tree's named functions on the stack; one that calls itself counts once."""
        around: set[int] = set()
        while frame is not None:
            code = frame.f_code
            if self._place(code) is not None and not code.co_name.startswith("<"):
                around.add(id(code))
            frame = frame.f_back
        return len(around)
