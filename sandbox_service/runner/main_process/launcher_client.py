"""The runner's view of the launcher: instances are announced, released and swept; answers come later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.runner.io import message_socket
from sandbox_service.runner.io.message_connection import MessageLink

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sandbox_service.runner.io.event_loop import Loop
    from sandbox_service.runner.io.message_socket import Message

__all__ = ["Agents"]


class Agents:
    """The runner's end of the launcher."""

    def __init__(self, loop: Loop, end: socket.socket, on_closed: Callable[[], None]) -> None:
        self._link = MessageLink(loop, end, self._heard, on_closed)
        self._waiting: dict[int, Callable[[bool, list[str]], None]] = {}
        self._requests = 0

    def configure(self, config: Message) -> None:
        """Tell how the box is laid out; the first message."""
        self._link.send({"do": "configure", "config": config})

    def mark_clean(self) -> None:
        """What lies in shared directories now belongs to the world."""
        self._link.send({"do": "mark"})

    def open(self, serial: int, copy_of: int | None = None) -> socket.socket:
        """Announce an instance; the socket over which its worker speaks with the launcher."""
        ours, theirs = message_socket.pair()
        self._link.send({"do": "open", "serial": serial, "copy_of": copy_of}, (theirs,))
        return ours

    def release(self, serial: int, done: Callable[[bool, list[str]], None]) -> None:
        """End and clean an instance; ``done`` gets whether that is proven, and what is left."""
        self._ask({"do": "release", "serial": serial}, done)

    def reset(self, done: Callable[[bool, list[str]], None]) -> None:
        """End and clean everything."""
        self._ask({"do": "reset"}, done)

    def close(self) -> None:
        """Hang up; the launcher ends everything and itself."""
        self._link.close()

    def _ask(self, message: Message, done: Callable[[bool, list[str]], None]) -> None:
        self._requests += 1
        self._waiting[self._requests] = done
        self._link.send({**message, "request": self._requests})

    def _heard(self, message: Message) -> None:
        self._waiting.pop(int(message["request"]))(bool(message["clean"]), list(message["left"]))
