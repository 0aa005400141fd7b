"""The worker's end of an instance's control socket: requests to the launcher, and news of ended processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.runner.io.message_socket import Message, receive, send

if TYPE_CHECKING:
    import socket

__all__ = ["Control"]


class Control:
    """Synchronous: one request at a time, answered in order."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._exits: dict[int, int] = {}

    def ask(self, message: Message, descriptors: tuple[int, ...] = ()) -> Message:
        """Send a request and wait for its answer. Raises OSError when the launcher could not do it."""
        self.tell(message, descriptors)
        return self.answer()

    def tell(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Send a request whose answer is fetched later."""
        send(self.end, message, descriptors)

    def answer(self) -> Message:
        """Wait for the next answer."""
        while True:
            try:
                message, _ = receive(self.end)
            except EOFError as error:
                raise OSError("the launcher is gone") from error
            if "exit" in message:
                self._exits[int(message["exit"])] = int(message["code"])
            elif "error" in message:
                raise OSError(message["error"])
            else:
                # An older process may have had the same id.
                self._exits.pop(message.get("pid", 0), None)
                return message

    def hear(self) -> None:
        """Take the news that has come; to be called when ``end`` is readable."""
        try:
            message, _ = receive(self.end, wait=False)
        except BlockingIOError:
            return
        except EOFError as error:
            raise OSError("the launcher is gone") from error
        if "exit" in message:
            self._exits[int(message["exit"])] = int(message["code"])

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a process that has ended (negative: the signal), told once."""
        return self._exits.pop(pid, None)

    def forget_exits(self) -> None:
        """Drop the news of processes that nobody waits for."""
        self._exits.clear()

    def replace(self, end: socket.socket) -> None:
        """Go on with another socket: this process has become a copy."""
        self.end.close()
        self.end = end
        self._exits.clear()
