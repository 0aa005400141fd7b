"""Addresses of streams: a unix socket on this node, or a TCP port on any."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import ssl


_KEEP_ALIVE = (
    (socket.TCP_KEEPIDLE, 4),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 10_000),
)
"""A peer whose node vanished is detected after ten seconds, when its lease ends, too (``store.lease_s``), and
not after the kernel's two hours."""


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the kernel detect a vanished peer of a TCP connection; does nothing on a unix socket."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A unix socket; the permissions of its folder decide which users may connect."""

    path: str

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Connect, or raise OSError."""
        await asyncio.get_running_loop().create_unix_connection(protocol, self.path)

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port, optionally behind TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Connect, or raise OSError (a failed TLS handshake is one)."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(protocol, self.host, self.port, ssl=self.tls)

    def __str__(self) -> str:
        return f"tcp:{self.host}:{self.port}"


Address: TypeAlias = UnixAddress | TcpAddress
