"""The host's connection: one at a time, authenticated by a token, and replaceable without loss.

The first HELLO sets the token; a later connection that brings it takes the place of the one before. Answers
that could not be sent whole wait for it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io.frame_connection import FrameConnection, QueuedBytes
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.runner.io.event_loop import EventLoop


_CREDENTIALS = struct.Struct("=3i")
_HANDSHAKE_S = 10.0
_MOST_PENDING = 16
_LEAST_TOKEN = 16
_LONGEST_PATH = 107
"""The kernel's limit of a socket's path."""


class HostConnection:
    """The listening socket, the authenticated connection, and those that have not completed the handshake."""

    def __init__(
        self,
        loop: EventLoop,
        path: str,
        on_frame: Callable[[Frame], None],
        on_hello: Callable[[Frame], None],
        on_away: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._path = path
        self._on_frame = on_frame
        self._on_hello = on_hello
        self._on_away = on_away
        self._token: str | None = None
        self._connection: FrameConnection | None = None
        self._pending: set[FrameConnection] = set()
        self._gauge = QueuedBytes()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self.refused_uids: range = range(0)
        """Peers of these user ids are agents."""
        self.away_since: float | None = time.monotonic()
        """Since when no host is connected."""
        self._listening = _listen(path)
        loop.watch(self._listening, self._accept)

    @property
    def queued(self) -> int:
        """Bytes that the host has not taken yet."""
        return self._gauge.bytes + self._unsent_bytes

    def send(self, frame: Frame) -> None:
        """Send a frame, now or when the host is back."""
        if self._connection is None:
            self._keep([frame.encode()])
        else:
            self._connection.send(frame)

    def _keep(self, unsent: list[bytes]) -> None:
        self._unsent += unsent
        self._unsent_bytes += sum(map(len, unsent))

    def pause(self, paused: bool) -> None:
        """Stop taking requests, or go on."""
        if self._connection is not None:
            self._connection.pause(paused)

    def close(self) -> None:
        """Hang up and remove the socket."""
        for connection in (*self._pending, self._connection):
            if connection is not None:
                connection.close()
        self._loop.watch(self._listening)
        self._listening.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108

    def _accept(self) -> None:
        try:
            end, _ = self._listening.accept()
        except OSError:
            return
        if len(self._pending) >= _MOST_PENDING or not self._may_connect(end):
            end.close()
            return
        connection = FrameConnection(
            self._loop,
            end,
            QueuedBytes(),
            lambda frame: self._first_frame(connection, frame),
            lambda: self._pending.discard(connection),
        )
        self._pending.add(connection)
        self._loop.call_at(time.monotonic() + _HANDSHAKE_S, lambda: self._give_up(connection))

    def _may_connect(self, end: socket.socket) -> bool:
        """Return whether a peer may: in a container all but agents, elsewhere only this user and root."""
        # In a container the folder of the socket is private, which keeps everybody else out.
        credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(credentials)
        if os.getpid() == 1:
            return uid not in self.refused_uids
        return uid in (0, os.geteuid())

    def _give_up(self, connection: FrameConnection) -> None:
        if connection in self._pending:
            self._pending.discard(connection)
            connection.close()

    def _first_frame(self, connection: FrameConnection, frame: Frame) -> None:
        if connection is self._connection:
            self._on_frame(frame)
            return
        if connection not in self._pending:
            return
        self._pending.discard(connection)
        if frame.op is not Op.HELLO or not self._admit(frame.meta.get("token")):
            connection.send(frame.error(BoxErrorCode.UNAUTHENTICATED, "the token is not this box's"))
            connection.flush()
            connection.close()
            return
        self._trust(connection)
        self._on_hello(frame)

    def _admit(self, token: object) -> bool:
        # Not all text of JSON can be encoded.
        if not isinstance(token, str) or not token.isascii():
            return False
        if self._token is None:
            if len(token) < _LEAST_TOKEN:
                return False
            self._token = token
            return True
        given, own = token.encode(), self._token.encode()
        # Compare every byte, so that the time does not reveal where they differ.
        return len(given) == len(own) and not sum(a ^ b for a, b in zip(given, own, strict=True))

    def _trust(self, connection: FrameConnection) -> None:
        """Make this the host's connection, in place of the one before."""
        if self._connection is not None:
            self._keep(self._connection.close())
        self._connection = connection
        connection.adopt(self._gauge, self._lost)
        self.away_since = None

    def answer_hello(self, answer: Frame) -> None:
        """Answer a HELLO, then send what could not be sent before."""
        self.send(answer)
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        for data in unsent:
            if self._connection is None:
                self._keep([data])
            else:
                self._connection.send_bytes(data)

    def _lost(self) -> None:
        if self._connection is not None:
            self._keep(self._connection.unsent)
            self._connection = None
            self.away_since = time.monotonic()
            self._on_away()


def _listen(path: str) -> socket.socket:
    # A socket of a runner that was killed stands in the way of bind; nothing else may be removed here.
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108
    listening = socket.socket(socket.AF_UNIX)
    _bind(listening, path)
    # The folder is private; the socket's own mode must let in the group that the folder lets in.
    os.chmod(path, 0o660)  # noqa: PTH101
    listening.listen(16)
    listening.setblocking(False)
    return listening


def _bind(listening: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        listening.bind(path)
        return
    # /proc/self/fd/N stands for the folder, so that the path is short however deep the folder lies.
    folder, _, name = path.rpartition("/")
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listening.bind(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)
