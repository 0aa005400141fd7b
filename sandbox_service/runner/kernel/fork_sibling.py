"""Forks a process whose copy is not its child but its parent's: the reaper above both keeps and buries it.

One system call does it where the process has one thread and the machine is known; elsewhere the copy is made
by a process in between that ends at once.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import time

from . import privileges

__all__ = ["fork_sibling"]

_CLONE_PARENT = 0x00008000
_CLONE_CALL = {"x86_64": 56, "aarch64": 220}
_PID = struct.Struct("=i")


def fork_sibling() -> int:
    """Fork; 0 in the copy, which dies with the parent that it shares, its pid in the source.

    Raises OSError when no process can be made.
    """
    call = _CLONE_CALL.get(os.uname().machine)
    alone = len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    pid = _clone(call) if call is not None and alone else _fork_twice()
    if pid == 0:
        # The parent's own bond does not pass to a copy.
        privileges.die_with_parent()
    return pid


@functools.cache
def _interpreter() -> ctypes.PyDLL:
    """The interpreter and the C library; calls keep the interpreter's lock, as those of ``os.fork`` do."""
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"):
        library[name].restype = None
        setattr(library, name, library[name])
    return library


def _clone(call: int) -> int:
    """What ``os.fork`` does, with one flag more; sound only without other threads, who may hold C's locks."""
    library = _interpreter()
    arguments = [ctypes.c_ulong(each) for each in (_CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)]
    library.PyOS_BeforeFork()
    pid = int(library.syscall(ctypes.c_long(call), *arguments))
    if pid == 0:
        library.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    library.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, os.strerror(number))
    return pid


def _fork_twice() -> int:
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        # Nothing that is raised here may reach the loop that the source is in.
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
        while os.getppid() == between:
            time.sleep(0.00005)
        return 0
    os.close(writing)
    told = os.read(reading, _PID.size)
    os.close(reading)
    os.waitpid(middle, 0)
    if len(told) < _PID.size:
        raise OSError("no process could be made")
    (pid,) = _PID.unpack(told)
    return int(pid)
