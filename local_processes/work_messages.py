"""Messages to and from a work process: a pickle, with long bytes beside it.

Long bytes are sent from where they are and received into the object that they become, both without the
interpreter's lock. Inside of the pickle each message would hold the lock for several copies of them.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_COUNTS = struct.Struct("!QQ")
"""Length of the pickle, number of bytes objects beside it."""
_LENGTH = struct.Struct("!Q")
_TIMEVAL = struct.Struct("@ll")
_LONG = 64 * 1024
"""Bytes that are worth a place beside the pickle."""


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """A value on its way."""

    pickled: bytes
    beside: Sequence[bytes] = field(default=())

    @classmethod
    def of(cls, value: object) -> WorkMessage:
        """Pickle a value."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        return cls(file.getvalue(), pickler.beside)

    def load(self) -> Any:  # noqa: ANN401 - whatever the other end sent
        """Return the value."""
        return _Unpickler(self.pickled, self.beside).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.beside: list[bytes] = []

    def persistent_id(self, value: object) -> int | None:
        if type(value) is not bytes or len(value) <= _LONG:
            return None
        self.beside.append(value)
        return len(self.beside) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, beside: Sequence[bytes]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._beside = beside

    def persistent_load(self, number: Any) -> bytes:  # noqa: ANN401 - as pickle declares it
        return self._beside[int(number)]


def send(connection: socket.socket, message: WorkMessage, timeout_s: float | None = None) -> None:
    """Send a message. Raises TimeoutError, and OSError when the other end is gone."""
    lengths = b"".join(_LENGTH.pack(len(each)) for each in message.beside)
    head = _COUNTS.pack(len(message.pickled), len(message.beside))
    _limit(connection, socket.SO_SNDTIMEO, timeout_s)
    try:
        for part in (head + lengths, message.pickled, *message.beside):
            connection.sendall(part)
    except BlockingIOError as error:
        raise TimeoutError("the other end does not read") from error


def receive(connection: socket.socket, timeout_s: float | None = None) -> WorkMessage:
    """Return the next message. Raises TimeoutError, and EOFError when the other end is gone."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    length, count = _COUNTS.unpack(_exactly(connection, _COUNTS.size, deadline))
    lengths = _exactly(connection, count * _LENGTH.size, deadline)
    pickled = _exactly(connection, length, deadline)
    return WorkMessage(
        pickled, [_exactly(connection, size, deadline) for (size,) in _LENGTH.iter_unpack(lengths)]
    )


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    parts: list[bytes] = []
    while size:
        left_s = None if deadline is None else deadline - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise TimeoutError("no message in time")
        _limit(connection, socket.SO_RCVTIMEO, left_s)
        try:
            # Nearly always all of it in one object; less when a signal or the limit came in between.
            data = connection.recv(size, socket.MSG_WAITALL)
        except BlockingIOError:
            continue
        if not data:
            raise EOFError("the other end is gone")
        parts.append(data)
        size -= len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _limit(connection: socket.socket, option: int, seconds: float | None) -> None:
    """Let the kernel end calls after so long: Python's own timeout would cut them into small ones."""
    # Zero is no limit.
    microseconds = 0 if seconds is None else max(1000, int(seconds * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(*divmod(microseconds, 1_000_000)))
