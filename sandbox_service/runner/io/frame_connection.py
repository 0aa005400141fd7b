"""A non-blocking connection that carries frames, and descriptors beside them.

Frames that are sent in one round of the event loop leave in one system call. Writing never blocks: what the
peer does not take yet is queued and counted in ``QueuedBytes``, and whoever feeds the connection reads that
count and stops taking in more. When the connection breaks, frames that were not sent whole can be had back.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from sandbox_service.wire.frames import Decoder, Frame, FrameError

from .fds import send_with_descriptors

if TYPE_CHECKING:
    from .event_loop import EventLoop


_CHUNK = 1 << 18
_MOST_AT_ONCE = 64
"""Frames in one system call."""


class QueuedBytes:
    """Counts the bytes that wait in a set of connections."""

    def __init__(self) -> None:
        self.bytes = 0


class _Outgoing:
    __slots__ = ("carried", "data", "sent")

    def __init__(self, data: bytes, carried: tuple[socket.socket, ...]) -> None:
        self.data = data
        self.carried = carried
        self.sent = 0


class FrameConnection:
    """One connection; ``on_closed`` is called once, when it broke or the peer left."""

    def __init__(
        self,
        loop: EventLoop,
        end: socket.socket,
        queued: QueuedBytes,
        on_frame: Callable[[Frame], None],
        on_closed: Callable[[], None],
    ) -> None:
        end.setblocking(False)
        self.end = end
        self._loop = loop
        self._queued = queued
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._decoder = Decoder(keep=True)
        self._queue: deque[_Outgoing] = deque()
        self._blocked = False
        """The peer does not take what is queued; the loop calls back when it does."""
        self._open = True
        self.reading = True
        self.unsent: list[bytes] = []
        """Once the connection is closed: frames that the peer cannot have got whole."""
        self._watch()

    def _watch(self) -> None:
        if self._open:
            read = self._read if self.reading else None
            self._loop.watch(self.end, read, self._write if self._blocked else None)

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
        self._queued.bytes += len(data)
        if len(self._queue) == 1 and not self._blocked:
            # Not at once: answers of the same round then share the system call.
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is queued now, as far as the peer takes it."""
        if not self._blocked:
            self._write()

    def _write(self) -> None:
        try:
            while self._queue:
                self._sent(self._send_some())
        except BlockingIOError:
            self._set_blocked(True)
            return
        except OSError:
            self._broken()
            return
        self._set_blocked(False)

    def _set_blocked(self, blocked: bool) -> None:
        if self._blocked != blocked:
            self._blocked = blocked
            self._watch()

    def _send_some(self) -> int:
        first = self._queue[0]
        if first.carried:
            # On its own, so that the descriptors arrive with the first byte of the frame that they belong to.
            # Closed at once: the kernel holds them from here on, and they must not be sent twice.
            numbers = tuple(each.fileno() for each in first.carried)
            sent = send_with_descriptors(self.end, first.data, numbers)
            _close(first.carried)
            first.carried = ()
            return sent
        if first.sent or len(self._queue) == 1:
            return self.end.send(memoryview(first.data)[first.sent :], socket.MSG_NOSIGNAL)
        plain = takewhile(lambda each: not each.carried, islice(self._queue, _MOST_AT_ONCE))
        return self.end.sendmsg([each.data for each in plain], [], socket.MSG_NOSIGNAL)

    def _sent(self, count: int) -> None:
        while count:
            first = self._queue[0]
            part = min(count, len(first.data) - first.sent)
            first.sent += part
            count -= part
            if first.sent == len(first.data):
                self._queue.popleft()
                self._queued.bytes -= len(first.data)

    def _read(self) -> None:
        try:
            data = self.end.recv(_CHUNK)
            frames = self._decoder.feed(data)
        except BlockingIOError:
            return
        except (OSError, FrameError):
            self._broken()
            return
        # First the frames, then the end: what a peer sent before it left counts.
        for frame in frames:
            self._on_frame(frame)
        if not data:
            self._broken()

    def drain(self) -> None:
        """Read everything that an ended peer sent before it ended."""
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

    def adopt(self, queued: QueuedBytes, on_closed: Callable[[], None]) -> None:
        """Count in ``queued`` and report the end to ``on_closed`` from now on."""
        waiting = sum(len(each.data) for each in self._queue)
        self._queued.bytes -= waiting
        queued.bytes += waiting
        self._queued, self._on_closed = queued, on_closed

    def close(self) -> list[bytes]:
        """Hang up without calling ``on_closed``; return the frames that the peer cannot have got whole."""
        if self._open:
            self._open = False
            self._loop.watch(self.end)
            self.end.close()
            for each in self._queue:
                _close(each.carried)
                self._queued.bytes -= len(each.data)
                self.unsent.append(each.data)
            self._queue.clear()
        return self.unsent


def _close(carried: tuple[socket.socket, ...]) -> None:
    for each in carried:
        each.close()
