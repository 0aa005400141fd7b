"""The main process's non-blocking connection to the launcher or the zygote."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from sandbox_service.runner.messages.codec import Codec, MessageError, RunnerMessage

from .message_socket import receive, send

if TYPE_CHECKING:
    import socket

    from .event_loop import EventLoop


M = TypeVar("M", bound=RunnerMessage)


class MessageConnection(Generic[M]):
    """Sends messages in order, with descriptors; calls back with each message that ``codec`` decodes."""

    def __init__(
        self,
        loop: EventLoop,
        end: socket.socket,
        codec: Codec[M],
        on_message: Callable[[M], None],
        on_closed: Callable[[], None],
    ) -> None:
        end.setblocking(False)
        self._loop = loop
        self._end = end
        self._codec = codec
        self._on_message = on_message
        self._on_closed = on_closed
        self._queue: deque[tuple[RunnerMessage, tuple[socket.socket, ...]]] = deque()
        self._open = True
        loop.watch(end, self._read)

    def send(self, message: RunnerMessage, carried: tuple[socket.socket, ...] = ()) -> None:
        """Queue a message; ``carried`` travel with it and are closed here afterwards."""
        self._queue.append((message, carried))
        if len(self._queue) == 1:
            self._write()

    def _write(self) -> None:
        while self._queue and self._open:
            message, carried = self._queue[0]
            try:
                send(self._end, message, tuple(each.fileno() for each in carried), wait=False)
            except BlockingIOError:
                # The message stays the first: nothing of a datagram was sent, nor any of its descriptors.
                self._loop.watch(self._end, self._read, self._write)
                return
            except OSError:
                self._broken()
                return
            self._queue.popleft()
            for each in carried:
                each.close()
        if self._open:
            self._loop.watch(self._end, self._read)

    def _read(self) -> None:
        try:
            while self._open:
                self._on_message(receive(self._end, self._codec, wait=False)[0])
        except BlockingIOError:
            return
        except (EOFError, OSError, MessageError):
            # What cannot be understood ends the connection, as its end does: the box ends with it.
            self._broken()

    def _broken(self) -> None:
        if self._open:
            self.close()
            self._on_closed()

    def close(self) -> None:
        """Hang up; the process at the other end kills its children and exits."""
        if self._open:
            self._open = False
            self._loop.watch(self._end)
            self._end.close()
