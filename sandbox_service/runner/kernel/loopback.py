"""The loopback interface of a network namespace of our own, which is born without it being up.

Containers have it up already. An engine that a world runs beside itself listens there. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct

_GET_FLAGS = 0x8913
_SET_FLAGS = 0x8914
_UP = 0x1
_REQUEST = struct.Struct("16sh22x")
"""An interface's name and flags, in the size of the kernel's ``ifreq``."""


def bring_up_loopback() -> bool:
    """Make 127.0.0.1 answer where we may; return whether this changed anything."""
    return _switch(up=True)


def take_down_loopback() -> None:
    """Undo ``bring_up_loopback``. Call it only where that has changed something: elsewhere it is not ours."""
    _switch(up=False)


def _switch(*, up: bool) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        answer = fcntl.ioctl(end, _GET_FLAGS, _REQUEST.pack(b"lo", 0))
        _, flags = _REQUEST.unpack(answer)
        if bool(flags & _UP) != up:
            fcntl.ioctl(end, _SET_FLAGS, _REQUEST.pack(b"lo", flags | _UP if up else flags & ~_UP))
            return True
    return False
