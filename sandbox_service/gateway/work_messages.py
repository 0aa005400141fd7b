"""Messages between the gateway and its process for large bodies: a length, and so many bytes."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


_LENGTH = struct.Struct("!Q")


def send(connection: socket.socket, message: bytes, timeout_s: float | None = None) -> None:
    """Send a message. Raises TimeoutError, and OSError when the other end is gone."""
    connection.settimeout(timeout_s)
    connection.sendall(_LENGTH.pack(len(message)))
    connection.sendall(message)


def receive(connection: socket.socket, timeout_s: float | None = None) -> bytearray:
    """Return the next message. Raises TimeoutError, and EOFError when the other end is gone."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, deadline))
    return _exactly(connection, length, deadline)


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytearray:
    received = bytearray(size)
    left = memoryview(received)
    while left:
        if deadline is not None:
            # Zero would make the socket non-blocking, which fails with another error.
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        count = connection.recv_into(left)
        if not count:
            raise EOFError("the other end is gone")
        left = left[count:]
    return received
