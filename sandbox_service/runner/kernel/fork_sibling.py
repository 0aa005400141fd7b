"""Fork a sibling process: the copy's parent is the parent of the process that forks, which reaps both.

A worker or session that forks an ordinary child would have to outlive and reap it, and the copy would die
with it. Where the process has one thread and the machine's call number is known, one ``clone`` with
CLONE_PARENT does it. Elsewhere, and in gVisor, which ignores that flag, the copy is made by a process in
between that exits at once, so that the reaper above adopts the copy.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import struct
import time

from . import privileges
from .forked_copy import fork_with_pipe

_CLONE_PARENT = 0x00008000
_CLONE_CALL = {"x86_64": 56, "aarch64": 220}
_PID = struct.Struct("=i")


def fork_sibling() -> int:
    """Fork a sibling; return 0 in the copy, which dies with the shared parent, and its pid in the source.

    Raises OSError when no process can be made.
    """
    call = _CLONE_CALL.get(os.uname().machine)
    alone = len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    pid = _clone(call) if call is not None and alone else None
    if pid is None:
        pid = _fork_twice()
    if pid == 0:
        # The kernel clears the parent-death signal in a copy.
        privileges.die_with_parent()
    return pid


@functools.cache
def _interpreter() -> ctypes.PyDLL:
    """Return the interpreter and the C library.

    PyDLL, not CDLL: its calls keep the GIL. The hooks around a fork must be called with it, and a copy that
    came to life without it could never take it.
    """
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"):
        library[name].restype = None
        setattr(library, name, library[name])
    return library


def _clone(call: int) -> int | None:
    """Do what ``os.fork`` does, with CLONE_PARENT; return None where the kernel ignores that flag.

    This bypasses the C library's ``fork``, so that its handlers do not run: a lock that another thread holds,
    in malloc for one, would stay locked in the copy for ever. Hence only without other threads.
    """
    library = _interpreter()
    source = os.getpid()
    # flags, stack (0: a copy of this one, as fork does), then tids and tls, which the flags leave unused, so
    # that their order, which differs between machines, does not matter. As c_ulong: a Python int is passed as
    # a C int.
    arguments = [ctypes.c_ulong(each) for each in (_CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)]
    # Also skipped is the C library's own record of the thread's id, which in the copy names the source. Only
    # mutexes with priority inheritance compare it with the kernel's, and Python has none.
    # Takes the import lock and the others that PyOS_AfterFork_* release. Nothing may raise in between.
    library.PyOS_BeforeFork()
    pid = int(library.syscall(ctypes.c_long(call), *arguments))
    if pid == 0:
        library.PyOS_AfterFork_Child()
        if os.getppid() == source:
            os._exit(0)
        return 0
    # Read errno first: what the hook calls may change it.
    number = ctypes.get_errno()
    library.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, os.strerror(number))
    # A sibling cannot be waited for. A child can, which exits as soon as it finds out that it is one.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
        return None
    return pid


def _fork_twice() -> int:
    """Fork a child that forks the copy and exits, which leaves the copy to the subreaper above."""
    middle, reading, writing = fork_with_pipe()
    if middle == 0:
        # Leave with os._exit: an exception would run the caller's loop a second time, in this process.
        between = os.getpid()
        try:
            copy = os.fork()
        except OSError:
            os._exit(1)
        if copy:
            os.write(writing, _PID.pack(copy))
            os._exit(0)
        os.close(reading)
        os.close(writing)
        # die_with_parent, which comes next, must bind the copy to the reaper and not to the one in between.
        while os.getppid() == between:
            time.sleep(0.00005)
        return 0
    os.close(writing)
    received = os.read(reading, _PID.size)
    os.close(reading)
    os.waitpid(middle, 0)
    if len(received) < _PID.size:
        raise OSError("no process could be made")
    (pid,) = _PID.unpack(received)
    return int(pid)
