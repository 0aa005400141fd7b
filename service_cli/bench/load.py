"""A light HTTP/1.1 load generator: raw sockets, keep-alive, one request at a time on a connection.

An ordinary client needs more CPU than the service that it measures. This one reads only responses with a
Content-Length; anything unexpected ends the measurement with an error.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, cast
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_WAIT_S = 300.0


class LoadError(RuntimeError):
    """The service gave a response that invalidates the measurement."""


class RefusedError(LoadError):
    """A request was answered with an error; the connection can still be used."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a server, and the key to send."""

    host: str
    port: int
    api_key: str | None = None

    @classmethod
    def of(cls, url: str, api_key: str | None = None) -> Self:
        """Return the target of an http URL."""
        parts = urlsplit(url)
        return cls(parts.hostname or "127.0.0.1", parts.port or 80, api_key)

    def request(self, path: str, body: bytes, method: str = "POST") -> bytes:
        """Return the bytes of a request."""
        key = "" if self.api_key is None else f"authorization: Bearer {self.api_key}\r\n"
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\ncontent-type: application/json\r\n"
            f"{key}content-length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body


class Connection(asyncio.Protocol):
    """A kept-alive connection for one request at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the same methods, but are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LoadError(f"the connection broke during a request: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        reply = self._parse()
        if reply is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    async def send(self, request: bytes) -> Reply:
        """Send a request and return its response."""
        if self._transport is None or self._transport.is_closing():
            raise LoadError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _parse(self) -> Reply | None:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return None
        head = self._buffer[:end].lower()
        at = head.find(_LENGTH)
        if at < 0:
            raise LoadError(f"a response without Content-Length: {self._buffer[:end]!r}")
        length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        start = end + len(_HEAD_END)
        if len(self._buffer) < start + length:
            return None
        body = self._buffer[start : start + length]
        self._buffer = self._buffer[start + length :]
        return Reply(int(head[9:12]), body)


async def connect(target: Target) -> Connection:
    """Open a connection."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, target.host, target.port)
    return connection


@dataclass(slots=True)
class Load:
    """Latencies and CPU of a load."""

    latencies_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Of requests that were served, by path, in order of arrival."""
    refused: int = 0
    """Requests that were answered with an error."""
    wall_s: float = 0.0
    own_cpu_s: float = 0.0
    """CPU seconds of the generator, which shares the cores with the service."""

    @property
    def requests(self) -> int:
        """Number of served requests."""
        return sum(map(len, self.latencies_ms.values()))

    @property
    def per_s(self) -> float:
        """Served requests per second."""
        return self.requests / self.wall_s

    @property
    def own_cpu_ms(self) -> float:
        """CPU milliseconds of the generator per served request."""
        return self.own_cpu_s * 1e3 / self.requests


@dataclass(frozen=True, slots=True)
class LoadConnection:
    """A connection that records the latencies of its requests."""

    target: Target
    connection: Connection
    load: Load

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request and record its latency. Raises RefusedError, or LoadError without a response."""
        request = self.target.request(path, body)
        sent = time.perf_counter()
        reply = await self.connection.send(request)
        answered_ms = (time.perf_counter() - sent) * 1e3
        # A refusal takes no time, and would make the service look faster.
        if reply.status >= 400:
            self.load.refused += 1
            raise RefusedError(f"{path}: status {reply.status}: {reply.body[:300]!r}")
        self.load.latencies_ms[path].append(answered_ms)
        return reply.body


async def drive(
    target: Target, work: Sequence[Callable[[LoadConnection], Awaitable[None]]], *, most_s: float = _WAIT_S
) -> Load:
    """Run all work concurrently, each piece on a connection of its own.

    Raises LoadError where the service cannot be connected to, breaks a connection, or takes over ``most_s``.
    """
    try:
        async with asyncio.timeout(most_s):
            return await _drive(target, work)
    except TimeoutError as error:
        raise LoadError(f"the work was not done within {most_s:g} s") from error
    except OSError as error:
        where = f"{target.host}:{target.port}"
        raise LoadError(f"the connection to {where} failed: {error}") from error


async def _drive(target: Target, work: Sequence[Callable[[LoadConnection], Awaitable[None]]]) -> Load:
    load = Load()
    connections: list[LoadConnection] = []
    try:
        for _ in work:
            connections.append(LoadConnection(target, await connect(target), load))
        started, cpu = time.perf_counter(), time.thread_time()
        async with asyncio.TaskGroup() as group:
            for piece, connection in zip(work, connections, strict=True):
                group.create_task(_run(piece, connection))
        load.wall_s = time.perf_counter() - started
        load.own_cpu_s = time.thread_time() - cpu
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    finally:
        for each in connections:
            each.connection.close()
    return load


async def _run(piece: Callable[[LoadConnection], Awaitable[None]], connection: LoadConnection) -> None:
    await piece(connection)
