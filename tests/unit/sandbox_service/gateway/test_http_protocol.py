"""Connections over real sockets whose clients do not read: they end, and others get their whole answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn.config
from uvicorn import Config
from uvicorn.server import ServerState

from sandbox_service.gateway.http_protocol import TimedHttpProtocol, limit_stalls
from tests.harness.waiting import until

MIB = 1024 * 1024
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class ShortTempered(TimedHttpProtocol):
    stall_s = 0.05


class Answering:
    """An application that sends a large answer, or begins one and gives up."""

    def __init__(self, size: int, *, gives_up: bool) -> None:
        self.size = size
        self.gives_up = gives_up

    async def __call__(self, scope, receive, send) -> None:
        headers = [(b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if self.gives_up:
            await send({"type": "http.response.body", "body": b"x" * (self.size // 2), "more_body": True})
        else:
            await send({"type": "http.response.body", "body": b"x" * self.size})


@asynccontextmanager
async def connected(
    protocol: type[TimedHttpProtocol], app: Answering
) -> AsyncIterator[tuple[ServerState, socket.socket]]:
    """A server's state and a connection to it that has little room of its own, with a request sent."""
    config = Config(app, http=protocol, lifespan="off", ws="none", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await loop.sock_connect(connection, server.sockets[0].getsockname())
        await loop.sock_sendall(connection, REQUEST)
        with connection:
            yield state, connection


async def read(connection: socket.socket, body_bytes: int) -> bytes:
    """The head of an answer and so many bytes of its body."""
    received = bytearray()
    while len(received) < body_bytes or received.count(b"x", -body_bytes) < body_bytes:
        part = await asyncio.get_running_loop().sock_recv(connection, MIB)
        assert part, "the connection was closed"
        received += part
    return bytes(received)


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_connection_that_is_not_read_is_reset(gives_up):
    async with connected(ShortTempered, Answering(16 * MIB, gives_up=gives_up)) as (state, connection):
        await until(lambda: state.connections)
        await until(lambda: not state.connections)
        with pytest.raises(ConnectionResetError):
            await read(connection, 16 * MIB)


async def test_a_client_that_reads_gets_the_whole_answer():
    async with connected(TimedHttpProtocol, Answering(16 * MIB, gives_up=False)) as (state, connection):
        received = await read(connection, 16 * MIB)
        assert received.endswith(b"\r\n\r\n" + b"x" * 16 * MIB)
        assert state.connections


def test_servers_that_are_started_later_have_the_protocol(monkeypatch):
    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", uvicorn.config.HTTP_PROTOCOLS["auto"])
    limit_stalls(7.0)
    config = Config(Answering(1, gives_up=False), log_config=None)
    config.load()
    assert issubclass(config.http_protocol_class, TimedHttpProtocol)
    assert config.http_protocol_class.stall_s == 7.0
