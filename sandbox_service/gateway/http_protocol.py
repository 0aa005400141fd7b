"""The HTTP protocol of the server in front of a replica, with a longest time for clients to read.

A connection holds what was sent to it until its client has read it. uvicorn waits for that without end, also
when it closes the connection, so that clients which read next to nothing keep memory that nothing counts.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from asyncio import TimerHandle

_RESET = struct.pack("ii", 1, 0)


class TimedHttpProtocol(HttpToolsProtocol):
    """Resets a connection that has held more than 64 KiB for too long, whether it is being closed or not.

    The time begins when the transport holds so much, and ends when less than 16 KiB are left.
    """

    stall_s = 60.0
    """The longest time."""
    _stalled: TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stall_s, self._reset)

    def resume_writing(self) -> None:
        self._stop_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _reset(self) -> None:
        # Without the reset, the kernel would go on to hold what it has for the client.
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


def limit_stalls(stall_s: float) -> None:
    """Have the servers that this process starts later reset connections after ``stall_s`` seconds.

    Serve starts uvicorn by itself, and has no setting for its protocol.
    """
    limited = type("LimitedHttpProtocol", (TimedHttpProtocol,), {"stall_s": stall_s})
    # Uvicorn accepts the class in place of its path.
    HTTP_PROTOCOLS["auto"] = limited  # type: ignore[assignment]
