"""Small messages between our own processes: one JSON object a datagram, with descriptors beside it.

Sequenced-packet sockets keep message borders and tell of the peer's end. Standard library only.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from .fds import receive_with_descriptors, send_with_descriptors

__all__ = ["Message", "pair", "receive", "send"]

Message = dict[str, Any]
MAX_MESSAGE = 64 * 1024
MAX_DESCRIPTORS = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Message, descriptors: tuple[int, ...] = (), wait: bool = True) -> None:
    """Send one message. Raises BlockingIOError when ``wait`` is off and the peer does not keep up."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(data)} bytes")
    send_with_descriptors(end, data, descriptors, 0 if wait else socket.MSG_DONTWAIT)


def receive(end: socket.socket, wait: bool = True) -> tuple[Message, list[int]]:
    """The next message and its descriptors. Raises EOFError at the end."""
    flags = 0 if wait else socket.MSG_DONTWAIT
    data, descriptors = receive_with_descriptors(end, MAX_MESSAGE, MAX_DESCRIPTORS, flags)
    if not data:
        raise EOFError
    message: Message = json.loads(data)
    return message, descriptors
