"""The streams from one gateway to the supervisors: one connection each, renewed when the address changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_service.stream.authentication import asker_handshake
from sandbox_service.stream.connection import MultiplexedClient, StreamOptions

if TYPE_CHECKING:
    from .members import Member

__all__ = ["Lines"]

CONNECT_PATIENCE_S = 1.0
"""A supervisor that does not answer for so long is looked up again, since it may have moved."""


class Lines:
    """Connections by supervisor, with what is in flight on each."""

    def __init__(self, options: StreamOptions | None = None) -> None:
        self._options = options or replace(StreamOptions(), connect_patience_s=CONNECT_PATIENCE_S)
        self._lines: dict[str, tuple[Member, MultiplexedClient]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.load: dict[str, int] = {}
        """Requests in flight by supervisor."""

    def to(self, member: Member) -> MultiplexedClient:
        """The connection to a supervisor as it is known now."""
        known = self._lines.get(member.name)
        if known is not None and known[0] == member:
            return known[1]
        if known is not None:
            self._hang_up(known[1])
        client = MultiplexedClient(
            member.address, handshake=asker_handshake(member.secret), options=self._options
        )
        self._lines[member.name] = (member, client)
        return client

    async def close(self) -> None:
        """Hang up everywhere."""
        for _, client in self._lines.values():
            self._hang_up(client)
        self._lines.clear()
        await asyncio.gather(*self._closing)

    def _hang_up(self, client: MultiplexedClient) -> None:
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
