"""Ports on the box's loopback behind which agents find their model endpoint.

A box has no network. While an agent runs that may reach a model, a port of its own takes the connections of
its user id, whose bytes go to the host as frames and come back likewise; the host connects them to the one
endpoint that the request names. The runner never looks into them.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.loopback import bring_up_loopback, take_down_loopback
from sandbox_service.runner.kernel.tcp_peers import uid_of_peer
from sandbox_service.wire import connections
from sandbox_service.wire.connections import CHUNK, MOST_CONNECTIONS, WINDOW
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.runner.io.event_loop import EventLoop


_LOOPBACK = "127.0.0.1"
_BACKLOG = 16
_PAUSE_S = 0.01
"""Between two accepted connections of an agent, so that one that only connects leaves time for others."""
_PAUSE_FACTOR = 10
"""The pause is so many times as long as the check of the user id took: agents can make its table long."""
_SHORT_READ_S = 0.001
"""Time between reads of less than a chunk, for all connections of an agent: single bytes are collected."""
_BURST_S = 0.1
"""Time of short reads that pass at once."""


class ShortReads:
    """Bounds how often an agent's connections are read for less than a chunk, all of them together."""

    def __init__(self) -> None:
        self._busy_until = 0.0

    def pause_s(self, now: float) -> float:
        """Count a read and return how long its connection is not read."""
        self._busy_until = max(self._busy_until, now) + _SHORT_READ_S
        return max(0.0, self._busy_until - now - _BURST_S)


class AgentConnection:
    """One accepted connection: bounded buffers between its socket and the host."""

    def __init__(
        self,
        loop: EventLoop,
        end: socket.socket,
        instance_id: str,
        number: int,
        send: Callable[[Frame], None],
        on_closed: Callable[[int], None],
        short_reads: ShortReads,
    ) -> None:
        end.setblocking(False)
        self._loop = loop
        self._end = end
        self._instance_id = instance_id
        self._number = number
        self._send = send
        self._on_closed = on_closed
        self._short_reads = short_reads
        self._paused = False
        """It is not read for now, so that more comes together."""
        self._credit = WINDOW
        """Bytes that may be sent to the host."""
        self._unwritten: deque[bytes] = deque()
        self._unwritten_bytes = 0
        self._ending = False
        """The host has closed it: what is unwritten is the last."""
        self._open = True
        self._watch()

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the host."""
        if frame.op is Op.CONNECTION_DATA:
            self._unwritten.append(frame.body)
            self._unwritten_bytes += len(frame.body)
            if self._unwritten_bytes > WINDOW:
                self.close()
                return
        elif frame.op is Op.CONNECTION_CREDIT:
            self._credit += connections.credited(frame)
        elif frame.op is Op.CONNECTION_CLOSE:
            self._ending = True
        self._write()

    def _watch(self) -> None:
        if self._open:
            reads = self._credit > 0 and not self._ending and not self._paused
            self._loop.watch(
                self._end, self._read if reads else None, self._write if self._unwritten else None
            )

    def _read(self) -> None:
        try:
            content = self._end.recv(min(CHUNK, self._credit))
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self.close()
            return
        self._credit -= len(content)
        self._send(connections.data(self._instance_id, self._number, content))
        if len(content) < CHUNK:
            self._pause()
        self._watch()

    def _pause(self) -> None:
        now = time.monotonic()
        pause_s = self._short_reads.pause_s(now)
        if pause_s > 0:
            self._paused = True
            self._loop.call_at(now + pause_s, self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._watch()

    def _write(self) -> None:
        written = 0
        try:
            while self._unwritten:
                sent = self._end.send(self._unwritten[0], socket.MSG_NOSIGNAL)
                written += sent
                first = self._unwritten.popleft()
                if sent < len(first):
                    self._unwritten.appendleft(first[sent:])
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if written:
            self._unwritten_bytes -= written
            self._send(connections.credit(self._instance_id, self._number, written))
        if self._ending and not self._unwritten:
            self.close()
            return
        self._watch()

    def close(self) -> None:
        """Close the socket and inform the host. Idempotent."""
        if self._open:
            self._open = False
            self._loop.watch(self._end)
            self._end.close()
            self._send(connections.closed(self._instance_id, self._number))
            self._on_closed(self._number)


class EndpointPort:
    """The port of one agent, open while the agent runs."""

    def __init__(
        self,
        loop: EventLoop,
        instance_id: str,
        uid: int | None,
        numbers: Callable[[], int],
        send: Callable[[Frame], None],
        most: Callable[[], int],
        on_room: Callable[[], None],
    ) -> None:
        """``uid`` may connect; None lets all in, where instances share a user id.

        ``most`` gives how many connections there may be now; ``on_room`` is called when one has ended. Raises
        OSError.
        """
        self._loop = loop
        self._instance_id = instance_id
        self._uid = uid
        self._numbers = numbers
        self._send = send
        self._most = most
        self._on_room = on_room
        self.full = False
        """It accepts again when ``resume`` is called."""
        self.by_number: dict[int, AgentConnection] = {}
        self._short_reads = ShortReads()
        self._accepting = False
        self._open = True
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listening.bind((_LOOPBACK, 0))
            self._listening.listen(_BACKLOG)
            self._listening.setblocking(False)
            self.number: int = self._listening.getsockname()[1]
        except OSError:
            self._listening.close()
            raise
        self.resume()

    def resume(self) -> None:
        """Accept again, unless there are as many connections as there may be."""
        self.full = len(self.by_number) >= self._most()
        if self._open and not self._accepting and not self.full:
            self._accepting = True
            self._loop.watch(self._listening, self._accept)

    def _accept(self) -> None:
        self._accepting = False
        self._loop.watch(self._listening)
        started = time.monotonic()
        try:
            end, peer = self._listening.accept()
        except OSError:
            end = None
        if end is not None:
            if self._uid is None or uid_of_peer(peer, end.getsockname()) == self._uid:
                self._begin(end)
            else:
                end.close()
        now = time.monotonic()
        self._loop.call_at(now + max(_PAUSE_S, _PAUSE_FACTOR * (now - started)), self.resume)

    def _begin(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            # Requests and answers are small: none waits to be sent together with the next.
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = self._numbers()
        # Announced first: data follows only after it.
        self._send(connections.opened(self._instance_id, number))
        self.by_number[number] = AgentConnection(
            self._loop, end, self._instance_id, number, self._send, self._closed, self._short_reads
        )

    def _closed(self, number: int) -> None:
        self.by_number.pop(number, None)
        self._on_room()

    def close(self) -> None:
        """Close the port and all connections."""
        self._open = False
        self._loop.watch(self._listening)
        self._listening.close()
        for connection in list(self.by_number.values()):
            connection.close()


def most_connections_of_box() -> int:
    """Return how many connections the agents of a box may have together: half of its descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


class ModelConnections:
    """The ports of all agents that run in the box."""

    def __init__(self, loop: EventLoop, send: Callable[[Frame], None]) -> None:
        self._loop = loop
        self._send = send
        self._ports: dict[str, EndpointPort] = {}
        self._last = 0
        self._most_of_box = most_connections_of_box()
        self._brought_up = False
        """Whether the loopback interface was down before, and so is ours to take down again."""

    def open(self, instance_id: str, uid: int | None) -> int:
        """Open a port for the agent of an instance and return its number. Raises OSError."""
        # Down otherwise where it is ours, so that the instances of a box cannot speak to each other.
        self._brought_up = bring_up_loopback() or self._brought_up
        port = EndpointPort(self._loop, instance_id, uid, self._number, self._send, self._most, self._resume)
        self._ports[instance_id] = port
        return port.number

    def close(self, instance_id: str) -> None:
        """Close the port of an instance, if it has one."""
        port = self._ports.pop(instance_id, None)
        if port is not None:
            port.close()
        if self._brought_up and not self._ports:
            take_down_loopback()
            self._brought_up = False

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the host; one of a connection that has ended is late, and dropped."""
        port = self._ports.get(frame.instance_id)
        connection = None if port is None else port.by_number.get(frame.request_id)
        if connection is not None:
            connection.receive(frame)

    def _most(self) -> int:
        """Return how many connections an agent may have now: one at least, however many others have."""
        taken = sum(len(port.by_number) for port in self._ports.values())
        return MOST_CONNECTIONS if taken < self._most_of_box else 1

    def _resume(self) -> None:
        for port in self._ports.values():
            if port.full:
                port.resume()

    def _number(self) -> int:
        self._last += 1
        return self._last
