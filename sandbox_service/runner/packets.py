"""Packets between a worker and a process under an agent's user id: a JSON object and a blob, with a deadline.

The far end may be hostile. A packet's lengths are capped before a byte of it is awaited, every wait has a
deadline, and anything that is no packet ends the conversation as if the peer had gone.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from .descriptors import receive_with_descriptors, send_with_descriptors

__all__ = ["MAX_BLOB", "MAX_JSON", "receive_packet", "send_packet"]

_HEADER = struct.Struct(">II")
MAX_JSON = 8 * 1024 * 1024
MAX_BLOB = 32 * 1024 * 1024
JsonObject = dict[str, Any]


def send_packet(
    end: socket.socket,
    message: JsonObject,
    blob: bytes = b"",
    descriptors: tuple[int, ...] = (),
    deadline: float | None = None,
) -> None:
    """Send one packet. Raises TimeoutError at the deadline, EOFError when the peer is gone."""
    text = json.dumps(message, separators=(",", ":")).encode()
    head = _HEADER.pack(len(text), len(blob))
    try:
        _wait_until(end, deadline)
        if descriptors:
            sent = send_with_descriptors(end, head, descriptors)
            head = head[sent:]
        for part in (head + text, blob):
            if part:
                _wait_until(end, deadline)
                end.sendall(part, socket.MSG_NOSIGNAL)
    except TimeoutError:
        raise
    except OSError as error:
        raise EOFError("the peer is gone") from error


def receive_packet(
    end: socket.socket, deadline: float | None = None, max_json: int = MAX_JSON, max_blob: int = MAX_BLOB
) -> tuple[JsonObject, bytes, list[int]]:
    """The next packet: object, blob, descriptors. Raises TimeoutError, or EOFError for an end or nonsense."""
    try:
        _wait_until(end, deadline)
        head, descriptors = receive_with_descriptors(end, _HEADER.size, 4)
        if not head:
            raise EOFError("the peer is gone")
        head += _exactly(end, _HEADER.size - len(head), deadline)
        json_length, blob_length = _HEADER.unpack(head)
        if json_length > max_json or blob_length > max_blob:
            raise EOFError("the peer announced too much")
        message = json.loads(_exactly(end, json_length, deadline))
        if not isinstance(message, dict):
            message = {}
        return message, _exactly(end, blob_length, deadline), descriptors
    except TimeoutError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise EOFError(f"the peer broke the conversation: {type(error).__name__}") from error


def _exactly(end: socket.socket, length: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while length:
        _wait_until(end, deadline)
        part = end.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("the peer is gone")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _wait_until(end: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        end.settimeout(None)
        return
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("the deadline passed")
    end.settimeout(remaining)
