"""A TCP forwarder that stops copying and keeps its sockets, as a proxy does whose server has failed over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["StallingLink", "stalling_link"]


class StallingLink:
    """Forwards connections to a port of loopback until it is made to stall."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._copying: set[asyncio.Task[None]] = set()
        self.port = 0

    def stall(self) -> None:
        """Forward nothing, on connections that exist and on new ones; their peers still get each ACK."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, also what came meanwhile."""
        self._flows.set()

    def leave_present_ones_stalled(self) -> None:
        """Forward nothing any more on the connections that exist; new ones work."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a connection until one side closes it."""
        flows = self._flows
        near_reader, near_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, target in ((reader, near_writer), (near_reader, writer)):
            task = asyncio.get_running_loop().create_task(_copy(source, target, flows))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)

    async def close(self) -> None:
        """End all connections."""
        for task in list(self._copying):
            task.cancel()
        await asyncio.gather(*self._copying, return_exceptions=True)


@asynccontextmanager
async def stalling_link(target: int) -> AsyncIterator[StallingLink]:
    """A link to a port of loopback; ``port`` is its own."""
    link = StallingLink(target)
    server = await asyncio.start_server(link.accept, "127.0.0.1")
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        await link.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, flows: asyncio.Event) -> None:
    try:
        with contextlib.suppress(ConnectionError, TimeoutError):
            while data := await source.read(65536):
                await flows.wait()
                target.write(data)
                await target.drain()
    finally:
        target.close()
