"""A launcher of one instance that starts nothing, so that what it is asked to start is late for ever."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from sandbox_service.runner.io.message_socket import pair, receive, send
from sandbox_service.runner.messages.control import REQUESTS, Done, Started, StartFiles
from sandbox_service.runner.worker.agent import RunnerAgent
from sandbox_service.runner.worker.control import ControlSocket

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from sandbox_service.runner.messages.codec import RunnerMessage

__all__ = ["StubLauncher", "agent_of"]


class StubLauncher:
    """Answers requests in order, as the launcher does, and notes their kinds."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, RunnerMessage] = {StartFiles.kind: Started(4711, None)}
        """Answers by the kind of request, ``Done`` for others."""
        self._held: list[int] = []

    def serve(self, end: socket.socket) -> None:
        """Answer until the worker hangs up."""
        with end, contextlib.suppress(EOFError):
            while True:
                request, descriptors = receive(end, REQUESTS)
                # Open, but nobody reads: the process that they are for does not come to life.
                self._held += descriptors
                self.asked.append(request.kind)
                send(end, self.answers.get(request.kind, Done(True)))

    def let_go(self) -> None:
        """Close the descriptors of what was never started."""
        for descriptor in self._held:
            os.close(descriptor)


@contextlib.contextmanager
def agent_of(launcher: StubLauncher) -> Iterator[RunnerAgent]:
    """A worker's agent, at the other end of the launcher's socket."""
    ours, theirs = pair()
    thread = threading.Thread(target=launcher.serve, args=(theirs,))
    thread.start()
    try:
        with ours:
            yield RunnerAgent(ControlSocket(ours), "/workspace")
    finally:
        thread.join()
        launcher.let_go()
