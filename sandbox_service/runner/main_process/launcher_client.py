"""Requests of the main process to the launcher; answers come to callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io import message_socket
from sandbox_service.runner.io.message_connection import MessageConnection
from sandbox_service.runner.messages.launcher import (
    REPLIES,
    Cleaned,
    Configure,
    MarkClean,
    OpenInstance,
    ReleaseInstance,
    ResetBox,
)

if TYPE_CHECKING:
    import socket

    from sandbox_service.runner.io.event_loop import EventLoop
    from sandbox_service.wire.json_types import JsonObject


class LauncherClient:
    """Sends the main process's requests to the launcher, and its answers to who asked."""

    def __init__(self, loop: EventLoop, end: socket.socket, on_closed: Callable[[], None]) -> None:
        self._connection = MessageConnection(loop, end, REPLIES, self._receive, on_closed)
        self._waiting: dict[int, Callable[[bool, list[str]], None]] = {}
        self._requests = 0

    def configure(self, config: JsonObject) -> None:
        """Send the box's configuration; the first message."""
        self._connection.send(Configure(config))

    def mark_clean(self) -> None:
        """Have the launcher take what lies in shared directories now for the world's."""
        self._connection.send(MarkClean())

    def open(self, serial: int, copy_of: int | None = None) -> socket.socket:
        """Announce an instance; return the socket over which its worker asks the launcher."""
        ours, theirs = message_socket.pair()
        self._connection.send(OpenInstance(serial, copy_of), (theirs,))
        return ours

    def release(self, serial: int, done: Callable[[bool, list[str]], None]) -> None:
        """Kill and clean an instance; ``done`` gets whether all is gone, and what is left."""
        self._connection.send(ReleaseInstance(self._expect(done), serial))

    def reset(self, done: Callable[[bool, list[str]], None]) -> None:
        """Kill and clean all instances."""
        self._connection.send(ResetBox(self._expect(done)))

    def close(self) -> None:
        """Hang up; the launcher ends everything and itself."""
        self._connection.close()

    def _expect(self, done: Callable[[bool, list[str]], None]) -> int:
        """Return the number of a new request, whose answer goes to ``done``."""
        self._requests += 1
        self._waiting[self._requests] = done
        return self._requests

    def _receive(self, message: Cleaned) -> None:
        self._waiting.pop(message.request)(not message.left, message.left)
