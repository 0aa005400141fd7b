"""The worker's end of a candidate process; its answers are data, no more."""

from __future__ import annotations

import math
import socket
import time
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet
from sandbox_service.runner.kernel.cpu_usage import usage_of
from sandbox_service.runner.messages.control import Done, EndCandidate, StartCandidate, Started

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.cpu_usage import CpuUsage
    from sandbox_service.wire.json_types import JsonObject

    from .control import ControlSocket


class CandidateClient:
    """Implements ``runner.world.Candidate``. ``request`` also works in a fork of the worker."""

    def __init__(self, control: ControlSocket, end: socket.socket, started: Started) -> None:
        self._control = control
        self._end = end
        self._started = started
        self.closed = False

    @classmethod
    def start(cls, control: ControlSocket, entry: str, *, sockets: bool) -> CandidateClient:
        """Have the launcher fork a candidate. Raises OSError when it cannot."""
        ours, theirs = socket.socketpair()
        try:
            started = control.ask(StartCandidate(entry, sockets), Started, (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(control, ours, started)

    def request(self, message: JsonObject, timeout_s: float) -> JsonObject:
        deadline = time.monotonic() + timeout_s
        send_packet(self._end, message, deadline=deadline)
        return receive_packet(self._end, deadline, max_blob=0)[0]

    def usage(self, enough_s: float = math.inf) -> CpuUsage:
        return usage_of([self._started.pid], self._started.uid, enough_s)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._end.close()
        # What it leaves behind, if anything, is out of the next one's reach and costs the box at the release.
        self._control.ask(EndCandidate(), Done)
        self._control.forget_exits()
