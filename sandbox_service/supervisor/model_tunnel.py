"""Connect the agents of boxes to the model endpoint that their request names, and to nothing else.

A runner accepts the connections of an agent in its box and sends their bytes as frames; each is connected
here to the endpoint. Memory is bounded by the windows of ``wire.connections``, the work for one agent by a
rate. A runner that does not keep to the protocol, which agents cannot make it do, loses its connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_service.telemetry import get_logger
from sandbox_service.wire import connections
from sandbox_service.wire.connections import CHUNK, MOST_CONNECTIONS, WINDOW
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from typing import Self


logger = get_logger(__name__)

_CONNECT_S = 10.0
_LINGER_S = 5.0
"""Longest time in which the endpoint reads the last bytes of a connection."""
_BYTES_PER_S = 16 * 1024 * 1024
"""Rate at which one agent may send to its endpoint; bursts of a second pass at once."""
_BURST_S = 1.0


@dataclass(slots=True, eq=False)
class _Connection:
    """Bytes that one connection has received from the runner and not sent on, and its credit to send back."""

    number: int
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something has changed that ``_upstream`` waits for."""
    unsent: bytearray = field(default_factory=bytearray)
    without_credit: int = 0
    """Bytes that were received and for which no credit was sent back."""
    ended: bool = False
    """The agent's side is closed."""
    credit: int = WINDOW
    credited: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ModelTunnel:
    """The connections of one agent; use it as a context manager around the agent's run."""

    def __init__(self, endpoint: str, instance_id: str, send: Callable[[Frame], None]) -> None:
        """``endpoint`` is ``host:port``; ``send`` sends a frame to the instance's runner."""
        host, _, port = endpoint.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._endpoint = endpoint
        self._instance_id = instance_id
        self._send = send
        self._connections: dict[int, _Connection] = {}
        self._busy_until = 0.0
        self.made = 0
        """Connections that the agent made."""
        self.failed = 0
        """Those of them that could not be made to the endpoint.

        One that breaks later does not count: an agent can bring that about, and would pass for a victim."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [each.task for each in self._connections.values() if each.task is not None]
        for connection in list(self._connections.values()):
            self._drop(connection)
        await asyncio.gather(*tasks, return_exceptions=True)

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the runner."""
        number = frame.request_id
        if frame.op is Op.CONNECTION_OPEN:
            self._open(number)
            return
        connection = self._connections.get(number)
        if connection is None:
            return
        if frame.op is Op.CONNECTION_DATA and frame.body:
            connection.unsent += frame.body
            connection.without_credit += len(frame.body)
            # More than its credit: this runner does not keep to the protocol.
            if connection.without_credit > WINDOW:
                self._drop(connection)
        elif frame.op is Op.CONNECTION_CREDIT:
            connection.credit += connections.credited(frame)
            connection.credited.set()
        elif frame.op is Op.CONNECTION_CLOSE:
            connection.ended = True
        connection.arrived.set()

    def _open(self, number: int) -> None:
        if number in self._connections or len(self._connections) >= MOST_CONNECTIONS:
            self._send(connections.closed(self._instance_id, number))
            return
        self.made += 1
        connection = self._connections[number] = _Connection(number)
        connection.task = asyncio.create_task(self._carry(connection), name=f"model connection {number}")

    def _drop(self, connection: _Connection) -> None:
        """End a connection at once."""
        # Not left to the task: one that is cancelled before it has begun does nothing.
        self._forget(connection)
        if connection.task is not None:
            connection.task.cancel()

    def _forget(self, connection: _Connection) -> None:
        if self._connections.pop(connection.number, None) is not None:
            self._send(connections.closed(self._instance_id, connection.number))

    async def _carry(self, connection: _Connection) -> None:
        """Serve one connection from its start to its end."""
        writer: asyncio.StreamWriter | None = None
        try:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    reader, writer = await asyncio.open_connection(*self._address, limit=WINDOW)
            except (OSError, TimeoutError) as error:
                self._unreachable(error)
                return
            writer.transport.set_write_buffer_limits(high=WINDOW)
            sending = asyncio.create_task(self._upstream(connection, writer))
            receiving = asyncio.create_task(self._downstream(connection, reader))
            try:
                # Either end closes both directions: an HTTP client that hangs up takes no answer.
                await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                receiving.cancel()
                await asyncio.gather(sending, receiving, return_exceptions=True)
            writer.close()
            # ``close`` waits until the endpoint has read everything, which it may never do.
            asyncio.get_running_loop().call_later(_LINGER_S, writer.transport.abort)
            writer = None
        finally:
            if writer is not None:
                writer.transport.abort()
            self._forget(connection)

    def _unreachable(self, error: Exception) -> None:
        self.failed += 1
        if self.failed == 1:
            # Once for each run: an agent tries again as often as it likes.
            logger.warning(
                "model_endpoint_unreachable",
                endpoint=self._endpoint,
                instance_id=self._instance_id,
                reason=str(error) or type(error).__name__,
            )

    async def _upstream(self, connection: _Connection, writer: asyncio.StreamWriter) -> None:
        """Send to the endpoint what the agent sends, until the agent hangs up."""
        while True:
            # Cleared before the look: bytes that arrive during it set the event again.
            connection.arrived.clear()
            if connection.unsent:
                # All of it at once, in however many frames it came.
                content, connection.unsent = bytes(connection.unsent), bytearray()
                writer.write(content)
                await writer.drain()
                await self._pace(len(content))
                connection.without_credit -= len(content)
                self._send(connections.credit(self._instance_id, connection.number, len(content)))
                # While there is room and time, none of these waits: the loop has other tenants to serve.
                await asyncio.sleep(0)
            elif connection.ended:
                return
            else:
                await connection.arrived.wait()

    async def _downstream(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        """Send to the agent what the endpoint sends, until the endpoint hangs up."""
        while True:
            while connection.credit <= 0:
                connection.credited.clear()
                await connection.credited.wait()
            content = await reader.read(min(CHUNK, connection.credit))
            if not content:
                return
            connection.credit -= len(content)
            self._send(connections.data(self._instance_id, connection.number, content))

    async def _pace(self, amount: int) -> None:
        """Wait while the agent has sent more than its rate allows."""
        now = asyncio.get_running_loop().time()
        self._busy_until = max(self._busy_until, now) + amount / _BYTES_PER_S
        ahead_s = self._busy_until - now - _BURST_S
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
