"""The connections from one gateway to the supervisors: one each, renewed when the address changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_service.stream.authentication import asker_handshake
from sandbox_service.stream.connection import MultiplexedClient, StreamOptions

if TYPE_CHECKING:
    from .members import Member


CONNECT_TIMEOUT_S = 1.0
"""Time after which a supervisor that does not answer is looked up again, since it may have moved."""


class SupervisorConnections:
    """Connections by supervisor, with the number of requests in flight on each."""

    def __init__(self, options: StreamOptions | None = None) -> None:
        self._options = options or replace(StreamOptions(), connect_timeout_s=CONNECT_TIMEOUT_S)
        self._clients: dict[str, tuple[Member, MultiplexedClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.load: dict[str, int] = {}
        """Requests in flight by supervisor."""

    def to(self, member: Member) -> MultiplexedClient:
        """Return the connection to a supervisor at its current address."""
        known = self._clients.get(member.name)
        if known is not None and known[0] == member:
            return known[1]
        if known is not None:
            self._disconnect(known[1])
        client = MultiplexedClient(
            member.address, handshake=asker_handshake(member.secret), options=self._options
        )
        self._clients[member.name] = (member, client)
        return client

    async def close(self) -> None:
        """Close all connections."""
        for _, client in self._clients.values():
            self._disconnect(client)
        self._clients.clear()
        await asyncio.gather(*self._closing)

    def _disconnect(self, client: MultiplexedClient) -> None:
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
