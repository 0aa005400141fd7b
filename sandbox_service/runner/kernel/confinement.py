"""Restrict a process that runs foreign code, with a filter of system calls and with Landlock.

In a container the engine filters system calls; a process box installs the same list itself. Neither step
needs a privilege, but ``refuse_new_privileges`` must come before: without it an unprivileged process is
refused the filter with EACCES and Landlock with EPERM.
Both pass to every descendant and cannot be undone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from . import privileges

_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_INSTRUCTION_BYTES = 8
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
"""libc has no functions for them; the numbers are the same on both machines below."""
_LANDLOCK_MACHINES = ("x86_64", "aarch64")
_LANDLOCK_CREATE_RULESET_VERSION = 1
FIRST_LANDLOCK_WITH_SCOPES = 6
"""Version of Landlock's interface, of Linux 6.12."""
_SCOPE_ABSTRACT_UNIX_SOCKET = 1


class _SocketCalls(NamedTuple):
    """The machine as seccomp names it, and the numbers of its calls."""

    machine: int
    socket: int
    connect: int
    bind: int
    socketpair: int


_SOCKET_CALLS = {
    "x86_64": _SocketCalls(0xC000003E, 41, 42, 49, 53),
    "aarch64": _SocketCalls(0xC00000B7, 198, 203, 200, 199),
}
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""Instructions of a filter (linux/bpf_common.h): load a word, mask it, two jumps that compare, and return."""
_NUMBER_AT, _MACHINE_AT, _FAMILY_AT, _TYPE_AT = 0, 4, 16, 24
"""Places in struct seccomp_data; the last two are the first arguments of ``socket`` and ``socketpair``."""
_SOCKET_TYPE_MASK = 0xF
"""Bits of the type; those above are flags."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_FIRST_X32 = 0x40000000
"""On x86_64, calls from this number on are the same calls once more, in the x32 convention."""

_apart = False
"""Whether this process is kept apart already; its children inherit both."""


class _Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class _Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


def confine(program: bytes) -> None:
    """Install ``program``, an array of ``struct sock_filter``, as the filter of every further system call.

    Raises OSError where the kernel does not filter system calls.
    """
    # The kernel copies the program, so that it need not outlive the call.
    pointer = ctypes.byref(_Program(len(program) // _INSTRUCTION_BYTES, program))
    mode, zero = ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.c_ulong(0)
    privileges.check(privileges.libc().prctl(_PR_SET_SECCOMP, mode, pointer, zero, zero))


def keep_abstract_sockets_apart() -> bool:
    """Deny abstract sockets of processes outside this one's tree; False where the kernel cannot.

    Abstract sockets belong to a network, which all instances of a box share, and no file's mode guards them.
    """
    global _apart  # noqa: PLW0603 - an attribute of the process, like the restriction itself
    if _apart:
        return True
    # A kernel that does not know ``scoped`` would refuse a structure that sets it with E2BIG.
    if landlock_version() < FIRST_LANDLOCK_WITH_SCOPES:
        return False
    call = privileges.libc().syscall
    rules = _Ruleset(0, 0, _SCOPE_ABSTRACT_UNIX_SOCKET)
    size = ctypes.c_size_t(ctypes.sizeof(rules))
    descriptor = call(ctypes.c_long(_LANDLOCK_CREATE_RULESET), ctypes.byref(rules), size, 0)
    privileges.check(descriptor)
    try:
        privileges.check(call(ctypes.c_long(_LANDLOCK_RESTRICT_SELF), descriptor, 0))
    finally:
        os.close(descriptor)
    _apart = True
    return True


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface; 0 where it is absent or not known."""
    if os.uname().machine not in _LANDLOCK_MACHINES:
        return 0
    # Without attributes and with this flag the call creates nothing and returns the version; -1 where
    # Landlock is absent.
    version = privileges.libc().syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), _LANDLOCK_CREATE_RULESET_VERSION
    )
    return max(0, int(version))


def refuse_sockets() -> bool:
    """Refuse new sockets, and every address, with EACCES; False on a machine whose calls are not known.

    Streams and sequenced packets between the two ends of a pair stay allowed: they reach nobody else. A
    datagram socket of a pair could still send to another address, and a socket with a name is visible to all
    processes of the network. Raises OSError where the kernel does not filter system calls.
    """
    known = _SOCKET_CALLS.get(os.uname().machine)
    if known is None:
        return False
    # code, instructions to skip if the comparison holds, if it does not, and the operand.
    program = (
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 0, 11, known.machine),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 9, 0, _FIRST_X32),
        (_EQUAL, 8, 0, known.socket),
        (_EQUAL, 7, 0, known.connect),
        (_EQUAL, 6, 0, known.bind),
        (_EQUAL, 0, 4, known.socketpair),
        (_LOAD, 0, 0, _TYPE_AT),
        (_AND, 0, 0, _SOCKET_TYPE_MASK),
        (_EQUAL, 1, 0, socket.SOCK_STREAM),
        (_EQUAL, 0, 1, socket.SOCK_SEQPACKET),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    confine(_packed(program))
    return True


def refuse_unix_sockets() -> bool:
    """Refuse new sockets of the family AF_UNIX with EACCES; False on a machine whose calls are not known.

    Pairs of sockets stay allowed. This is for what needs other families, on kernels without Landlock's
    scopes, gVisor's among them. Raises OSError where the kernel does not filter system calls.
    """
    known = _SOCKET_CALLS.get(os.uname().machine)
    if known is None:
        return False
    program = (
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 0, 6, known.machine),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 4, 0, _FIRST_X32),
        (_EQUAL, 0, 2, known.socket),
        (_LOAD, 0, 0, _FAMILY_AT),
        (_EQUAL, 1, 0, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    confine(_packed(program))
    return True


def _packed(program: Sequence[tuple[int, int, int, int]]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
