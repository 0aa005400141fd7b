"""Packets between a worker and a process under an agent's user id: a JSON object and a blob, with a deadline.

The far end may be hostile. A packet's lengths are capped before a byte of it is awaited, every wait has a
deadline, and anything that is no packet ends the conversation as if the peer had gone.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from sandbox_service.wire.frames import MAX_BODY

from .fds import receive_with_descriptors, send_with_descriptors

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_HEADER = struct.Struct(">II")
MAX_JSON = 8 * 1024 * 1024
MAX_BLOB = MAX_BODY + 1
"""A frame's body, and the byte more by which a file that is larger is known."""
_MOST_DESCRIPTORS = 4


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
            # With the header, since the receiver asks for descriptors there only; a stream may take a part.
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
) -> tuple[JsonObject, bytes]:
    """Return the next packet's object and blob. Raises TimeoutError, or EOFError for an end or nonsense.

    Descriptors that the peer sends along never arrive: without room for them the kernel drops them.
    """
    try:
        return _read(end, _exactly(end, _HEADER.size, deadline), deadline, (max_json, max_blob))
    except TimeoutError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise _broken(error) from error


def receive_packet_with_descriptors(end: socket.socket) -> tuple[JsonObject, bytes, list[int]]:
    """Return the next packet of a trusted peer, with the descriptors that came with it. Raises EOFError."""
    descriptors: list[int] = []
    try:
        head, descriptors = receive_with_descriptors(end, _HEADER.size, _MOST_DESCRIPTORS)
        head += _exactly(end, _HEADER.size - len(head), None)
        return *_read(end, head, None, (MAX_JSON, MAX_BLOB)), descriptors
    except BaseException as error:
        for descriptor in descriptors:
            os.close(descriptor)
        if isinstance(error, OSError | ValueError | RecursionError):
            raise _broken(error) from error
        raise


def _broken(error: Exception) -> EOFError:
    return EOFError(f"the peer broke the conversation: {type(error).__name__}")


def _read(
    end: socket.socket, head: bytes, deadline: float | None, most: tuple[int, int]
) -> tuple[JsonObject, bytes]:
    """Read what a header announces."""
    json_length, blob_length = _HEADER.unpack(head)
    if json_length > most[0] or blob_length > most[1]:
        raise EOFError("the peer announced too much")
    message = json.loads(_exactly(end, json_length, deadline))
    return message if isinstance(message, dict) else {}, _exactly(end, blob_length, deadline)


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
