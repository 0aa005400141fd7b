"""Bounds of a stream's two ends, and the pauses between attempts to connect."""

from __future__ import annotations

import random
from dataclasses import dataclass

from local_processes.waiting import exponential_wait_s
from sandbox_contract.problems import ErrorCode

MOST_IN_FLIGHT = 65_536
"""Requests of a gateway's connection to a supervisor: more than the supervisor takes before it refuses some,
since one that waited for a slot would make all tenants wait."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Bounds of the client end."""

    max_in_flight: int = MOST_IN_FLIGHT
    """Requests that may await their answers; further ones wait for a slot until their deadline."""
    write_buffer: int = 1024 * 1024
    """Bytes that may be unread by the peer before senders wait; large frames are counted on their own."""
    in_pieces: bool = True
    """Send large frames in pieces, so that small ones pass them; the peer has to be a ``StreamServer``."""
    handshake_timeout_s: float = 5.0
    """Longest time from dialling to the end of the handshake."""
    connect_timeout_s: float = 5.0
    """Longest time for which a request waits for a connection before it fails as unavailable."""
    back_off_min_s: float = 0.02
    """Longest pause after the first failure."""
    back_off_max_s: float = 2.0
    """Longest pause after any failure."""
    late: ErrorCode = ErrorCode.DEADLINE_EXCEEDED
    """The code of a request whose answer did not come in time."""
    unavailable: ErrorCode = ErrorCode.SUPERVISOR_UNAVAILABLE
    """The code of a request that was never sent."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Bounds of the server end."""

    max_in_flight: int = 1024
    """Requests of one connection that run at once; while there are more, the connection is not read."""
    max_connections: int = 1024
    """Connections of one server, those in their handshake included."""
    write_buffer: int = 4 * 1024 * 1024
    """Bytes that may be unread by the peer before its requests are no longer read."""
    hello_timeout_s: float = 5.0
    """Longest handshake."""
    stall_timeout_s: float = 30.0
    """Time after which a peer that does not read its answers is disconnected."""
    hang_up_timeout_s: float = 5.0
    """Time that peers have to read their last answers when the server closes."""


class BackOff:
    """Full-jitter exponential back-off: each failure doubles the range that the pause is drawn from."""

    def __init__(self, minimum_s: float, maximum_s: float) -> None:
        self.last_failure = ""
        self._minimum_s = minimum_s
        self._maximum_s = maximum_s
        self._failures = 0

    def failed(self, why: str) -> None:
        """Record a failure and its reason."""
        self._failures += 1
        self.last_failure = why

    def succeeded(self) -> None:
        """Clear the failures."""
        self._failures = 0
        self.last_failure = ""

    def pause(self) -> float:
        """Return the seconds to wait before the next attempt; none before the first."""
        if not self._failures:
            return 0.0
        ceiling = exponential_wait_s(self._minimum_s, self._maximum_s, self._failures)
        return random.uniform(0.0, ceiling)
