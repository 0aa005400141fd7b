"""Ask the world from a cell: one question, one answer, both JSON, over the session's own socket.

This runs beside agent code: a cell may send whatever it likes in place of a question, so the world treats
every question as hostile. Cells call ``ask`` while they run; at other times, and where the world answers no
questions, it fails.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet
from sandbox_service.runner.messages.codec import MessageError, encode
from sandbox_service.runner.messages.session import ANSWERS, Question, QuestionRefused

if TYPE_CHECKING:
    import socket

    from sandbox_service.wire.json_types import JsonObject


class WorldConnection:
    """Passes questions on to what answers the cell that runs, if anything does."""

    def __init__(self) -> None:
        self._answer: Callable[[JsonObject], JsonObject] | None = None

    def connect(self, answer: Callable[[JsonObject], JsonObject] | None) -> None:
        """Have ``answer`` answer the calls of ``ask`` from now on; with None they fail."""
        self._answer = answer

    def ask(self, request: JsonObject) -> JsonObject:
        """Return the world's answer.

        Raises TypeError when ``request`` is no dictionary, RuntimeError when the world answers no questions,
        and EOFError when the world is gone.
        """
        if self._answer is None:
            raise RuntimeError("the world answers no questions here")
        return self._answer(request)


WORLD = WorldConnection()
"""The session's connection. It belongs to the module because cells, and what they import, find it by
importing ``ask``; a session is a process of its own and runs one cell at a time."""
ask = WORLD.ask


class CellQuestions:
    """Asks the world on behalf of one cell, over the session's socket."""

    def __init__(self, control: socket.socket, cell: int) -> None:
        self._control = control
        self._cell = cell
        self._asked = 0
        # threading.Lock under its own name: the module threading runs code after every fork of the runner's,
        # which costs each process of an idle box 0.4 MB that it would share with the others.
        self._one_at_a_time = _thread.allocate_lock()

    def ask(self, request: JsonObject) -> JsonObject:
        """Ask, and wait for the answer to this very question. Raises as ``ask`` does."""
        # A signal handler of the agent's that raises between two halves of a packet would garble the rest.
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGINT})
        try:
            with self._one_at_a_time:
                self._asked += 1
                send_packet(self._control, encode(Question(self._cell, self._asked, request)))
                while True:
                    message, _ = receive_packet(self._control)
                    try:
                        answer = ANSWERS.decode(message)
                    except MessageError:
                        continue
                    if (answer.cell, answer.question) != (self._cell, self._asked):
                        continue
                    if isinstance(answer, QuestionRefused):
                        raise TypeError(answer.detail)
                    return answer.value
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
