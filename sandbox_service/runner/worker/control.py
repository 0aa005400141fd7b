"""The worker's end of an instance's control socket: requests to the launcher, reports of ended processes."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from sandbox_service.runner.io.message_socket import receive, send
from sandbox_service.runner.messages.codec import MessageError
from sandbox_service.runner.messages.control import ANSWERS, Done, ProcessExited, Refused, Started

if TYPE_CHECKING:
    import socket

    from sandbox_service.runner.messages.codec import RunnerMessage


_SOON_S = 0.05

A = TypeVar("A", bound="RunnerMessage")


class ControlSocket:
    """Synchronous: requests are answered in order."""

    def __init__(self, end: socket.socket, on_wait: Callable[[bool], None] = lambda _: None) -> None:
        """``on_wait`` is called with True when ``Done`` does not come soon, and with False when it has come.

        It answers the requests to kill, stop or resume processes, which may be slow to die or to stop.
        """
        self.end = end
        self._on_wait = on_wait
        self._exits: dict[int, int] = {}

    def ask(self, request: RunnerMessage, kind: type[A], descriptors: tuple[int, ...] = ()) -> A:
        """Send a request and wait for its answer. Raises OSError when the launcher could not do it."""
        self.send(request, descriptors)
        return self.answer(kind)

    def send(self, request: RunnerMessage, descriptors: tuple[int, ...] = ()) -> None:
        """Send a request whose answer is fetched later."""
        send(self.end, request, descriptors)

    def answer(self, kind: type[A]) -> A:
        """Wait for the next answer, which must be of a kind. Raises OSError when the launcher refused."""
        poll = select.poll()
        poll.register(self.end, select.POLLIN)
        waits = False
        try:
            while True:
                # Before each message: the answer after the report of an ended process may be late.
                if kind is Done and not waits and not poll.poll(_SOON_S * 1000):
                    waits = True
                    self._on_wait(True)
                answer = self._receive(kind)
                if answer is not None:
                    return answer
        finally:
            if waits:
                self._on_wait(False)

    def _receive(self, kind: type[A]) -> A | None:
        """Receive one message; None for the report of an ended process, which is noted."""
        try:
            message, _ = receive(self.end, ANSWERS)
        except EOFError as error:
            raise OSError("the launcher is gone") from error
        if isinstance(message, ProcessExited):
            self._exits[message.pid] = message.code
            return None
        if isinstance(message, Refused):
            raise OSError(message.detail)
        if not isinstance(message, kind):
            raise MessageError(f"the launcher answered {message.kind}, not {kind.kind}")
        if isinstance(message, Started):
            # The kernel may have given it the id of an older process, whose exit was never asked for.
            self._exits.pop(message.pid, None)
        return message

    def receive_reports(self) -> None:
        """Read the report that has come; call this when ``end`` is readable."""
        try:
            message, _ = receive(self.end, ANSWERS, wait=False)
        except BlockingIOError:
            return
        except EOFError as error:
            raise OSError("the launcher is gone") from error
        if isinstance(message, ProcessExited):
            self._exits[message.pid] = message.code

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a process that has ended (negative: the signal), once."""
        return self._exits.pop(pid, None)

    def has_exited(self, pid: int) -> bool:
        """Return whether a report has been read that a process has ended."""
        return pid in self._exits

    def forget_exits(self) -> None:
        """Drop the reports of processes that nobody waits for."""
        self._exits.clear()

    def replace(self, end: socket.socket) -> None:
        """Go on with another socket: this process has become a copy."""
        self.end.close()
        self.end = end
        self._exits.clear()
