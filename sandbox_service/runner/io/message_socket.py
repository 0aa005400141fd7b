"""Send and receive the messages of the runner's own processes: one JSON object a datagram, with descriptors.

Sequenced-packet sockets keep the boundaries of messages and report the end of the peer.
"""

from __future__ import annotations

import json
import os
import socket
from typing import TypeVar

from sandbox_service.runner.messages.codec import Codec, MessageError, RunnerMessage, encode

from .fds import receive_with_descriptors, send_with_descriptors

M = TypeVar("M", bound=RunnerMessage)
MAX_MESSAGE = 64 * 1024
MAX_DESCRIPTORS = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(
    end: socket.socket, message: RunnerMessage, descriptors: tuple[int, ...] = (), wait: bool = True
) -> None:
    """Send one message. Raises BlockingIOError when ``wait`` is off and the peer does not keep up."""
    data = json.dumps(encode(message), separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(data)} bytes")
    send_with_descriptors(end, data, descriptors, 0 if wait else socket.MSG_DONTWAIT)


def receive(end: socket.socket, codec: Codec[M], wait: bool = True) -> tuple[M, list[int]]:
    """Return the next message and its descriptors.

    Raises EOFError at the end, BlockingIOError when ``wait`` is off and none has come, and MessageError for
    what is no message of this connection.
    """
    flags = 0 if wait else socket.MSG_DONTWAIT
    data, descriptors = receive_with_descriptors(end, MAX_MESSAGE, MAX_DESCRIPTORS, flags)
    if not data:
        raise EOFError
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise MessageError("a message is a JSON object")
        return codec.decode(value), descriptors
    except (ValueError, RecursionError) as error:
        # Nobody else knows of them.
        for descriptor in descriptors:
            os.close(descriptor)
        raise MessageError(f"not a message of this connection: {error}") from error
