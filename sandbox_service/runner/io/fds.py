"""Descriptors that travel beside bytes over a unix socket.

The standard library's ``send_fds`` and ``recv_fds`` ignore their ``flags``, and so can neither be made not to
wait nor to close what they received at exec.
"""

from __future__ import annotations

import array
import socket

_INT = array.array("i").itemsize


def send_with_descriptors(
    end: socket.socket, data: bytes, descriptors: tuple[int, ...], flags: int = 0
) -> int:
    """Send bytes and descriptors; how many bytes went."""
    numbers = array.array("i", descriptors).tobytes()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if descriptors else []
    return end.sendmsg([data], rights, flags | socket.MSG_NOSIGNAL)


def receive_with_descriptors(
    end: socket.socket, size: int, most: int, flags: int = 0
) -> tuple[bytes, list[int]]:
    """Receive at most ``size`` bytes and ``most`` descriptors."""
    space = socket.CMSG_SPACE(most * _INT)
    data, rights, _, _ = end.recvmsg(size, space, flags | socket.MSG_CMSG_CLOEXEC)
    found = array.array("i")
    for level, kind, numbers in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(numbers[: len(numbers) - len(numbers) % _INT])
    return data, list(found)
