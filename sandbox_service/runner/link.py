"""A non-blocking connection that carries frames, and descriptors beside them.

Writing never blocks: what the peer does not take yet is queued and counted, and whoever feeds the link looks
at the count and stops taking in more. Frames that were not sent whole can be had back when the link breaks.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING

from .descriptors import send_with_descriptors
from .frames import Decoder, Frame, FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

__all__ = ["FrameLink", "Gauge"]

_CHUNK = 1 << 18


class Gauge:
    """Bytes that wait in a set of links."""

    def __init__(self) -> None:
        self.bytes = 0


class _Outgoing:
    __slots__ = ("carried", "data", "sent")

    def __init__(self, data: bytes, carried: tuple[socket.socket, ...]) -> None:
        self.data = data
        self.carried = carried
        self.sent = 0


class FrameLink:
    """One connection; ``on_closed`` is called once, when it broke or the peer left."""

    def __init__(
        self,
        loop: Loop,
        end: socket.socket,
        gauge: Gauge,
        on_frame: Callable[[Frame], None],
        on_closed: Callable[[], None],
    ) -> None:
        end.setblocking(False)
        self.end = end
        self._loop = loop
        self._gauge = gauge
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._decoder = Decoder()
        self._queue: deque[_Outgoing] = deque()
        self._open = True
        self.reading = True
        self.unsent: list[bytes] = []
        """Frames that the peer cannot have got whole, once the link is closed."""
        self._watch()

    def _watch(self) -> None:
        if self._open:
            read = self._read if self.reading else None
            self._loop.watch(self.end, read, self._write if self._queue else None)

    def pause(self, paused: bool) -> None:
        """Stop reading, or go on."""
        if self.reading == paused:
            self.reading = not paused
            self._watch()

    def send(self, frame: Frame, carried: tuple[socket.socket, ...] = ()) -> None:
        """Queue a frame; ``carried`` travel with it and are closed here afterwards."""
        self.send_bytes(frame.encode(), carried)

    def send_bytes(self, data: bytes, carried: tuple[socket.socket, ...] = ()) -> None:
        """Queue an encoded frame."""
        if not self._open:
            _close(carried)
            return
        self._queue.append(_Outgoing(data, carried))
        self._gauge.bytes += len(data)
        if len(self._queue) == 1:
            self._write()
            if self._queue:
                self._watch()

    def _write(self) -> None:
        try:
            while self._queue:
                first = self._queue[0]
                first.sent += self._send_some(first)
                if first.sent == len(first.data):
                    self._queue.popleft()
                    self._gauge.bytes -= len(first.data)
        except BlockingIOError:
            return
        except OSError:
            self._broken()
            return
        self._watch()

    def _send_some(self, first: _Outgoing) -> int:
        if first.carried:
            numbers = tuple(each.fileno() for each in first.carried)
            sent = send_with_descriptors(self.end, first.data, numbers)
            _close(first.carried)
            first.carried = ()
            return sent
        data: bytes | memoryview = memoryview(first.data)[first.sent :] if first.sent else first.data
        return self.end.send(data, socket.MSG_NOSIGNAL)

    def _read(self) -> None:
        try:
            data = self.end.recv(_CHUNK)
            frames = self._decoder.feed(data)
        except BlockingIOError:
            return
        except (OSError, FrameError):
            self._broken()
            return
        for frame in frames:
            self._on_frame(frame)
        if not data:
            self._broken()

    def drain(self) -> None:
        """Read all that a peer which has ended left behind."""
        while self._open:
            try:
                data = self.end.recv(_CHUNK)
                frames = self._decoder.feed(data)
            except (OSError, FrameError):
                return
            for frame in frames:
                self._on_frame(frame)
            if not data:
                return

    def _broken(self) -> None:
        if self._open:
            self.close()
            self._on_closed()

    def adopt(self, gauge: Gauge, on_closed: Callable[[], None]) -> None:
        """From now on count elsewhere, and tell somebody else of the end."""
        queued = sum(len(each.data) for each in self._queue)
        self._gauge.bytes -= queued
        gauge.bytes += queued
        self._gauge, self._on_closed = gauge, on_closed

    def close(self) -> list[bytes]:
        """Hang up without saying so to ``on_closed``; the frames that the peer cannot have got."""
        if self._open:
            self._open = False
            self._loop.watch(self.end)
            self.end.close()
            for each in self._queue:
                _close(each.carried)
                self._gauge.bytes -= len(each.data)
                self.unsent.append(each.data)
            self._queue.clear()
        return self.unsent


def _close(carried: tuple[socket.socket, ...]) -> None:
    for each in carried:
        each.close()
