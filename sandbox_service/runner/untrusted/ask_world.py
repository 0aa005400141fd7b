"""Ask the world from a cell: one question, one answer, both JSON, over the session's own socket.

This runs beside agent code: a cell may send whatever it likes in place of a question, so the world treats
every question as hostile. Cells call ``ask`` while they run; at other times, and where the world answers no
questions, it fails.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet
from sandbox_service.runner.messages.codec import JsonObject, encode
from sandbox_service.runner.messages.session import ANSWERS, Question, QuestionAnswer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

__all__ = ["CellQuestions", "ask", "connect"]

_lines: list[Callable[[JsonObject], JsonObject]] = []


def ask(request: JsonObject) -> JsonObject:
    """Return the world's answer. Raises RuntimeError when nobody answers, EOFError when the world is gone."""
    if not _lines:
        raise RuntimeError("nobody answers here")
    return _lines[-1](request)


def connect(line: Callable[[JsonObject], JsonObject] | None) -> None:
    """Have ``line`` answer questions from now on; nobody when it is None."""
    _lines[:] = [] if line is None else [line]


class CellQuestions:
    """Asks the world on behalf of one cell, over the session's socket."""

    def __init__(self, control: socket.socket, cell: int) -> None:
        self._control = control
        self._cell = cell
        self._asked = 0
        self._one_at_a_time = threading.Lock()

    def ask(self, request: JsonObject) -> JsonObject:
        """Ask, and wait for the answer to this very question."""
        # A signal handler of the agent's that raises between two halves of a packet would garble the rest.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGINT})
        try:
            with self._one_at_a_time:
                self._asked += 1
                send_packet(self._control, encode(Question(self._cell, self._asked, request)))
                while True:
                    message, _ = receive_packet(self._control)
                    if message.get("kind") != QuestionAnswer.kind:
                        continue
                    answer = ANSWERS.decode(message)
                    if (answer.cell, answer.question) == (self._cell, self._asked):
                        return answer.value
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
