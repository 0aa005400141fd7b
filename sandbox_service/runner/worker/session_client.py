"""The worker's end of an agent's Python session.

Agent code in the session can write to this socket and read from it. What comes is data of bounded size and
time; it can end a cell early or late, and nothing more.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet
from sandbox_service.runner.kernel.cpu_usage import usage_of
from sandbox_service.runner.messages.codec import MessageError, encode
from sandbox_service.runner.messages.control import Done, KillAgent, Started, StartSession
from sandbox_service.runner.messages.session import (
    REPORTS,
    CellDone,
    ForkSession,
    MoveSession,
    Question,
    QuestionAnswer,
    QuestionRefused,
    RunCell,
    SessionForked,
)

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.cpu_usage import CpuUsage
    from sandbox_service.runner.messages.codec import RunnerMessage
    from sandbox_service.wire.json_types import JsonObject

    from .allowance import Allowance
    from .control import ControlSocket
    from .output_capture import OutputCapture


_MAX_REPLY = 4096
_MAX_QUESTION = 4 << 20
_TIMEOUT_S = 5.0


class SessionClient:
    """One session process; nothing that it sends is believed but that a cell is over."""

    def __init__(
        self, control: ControlSocket, end: socket.socket, uid: int | None, pid: int | None = None
    ) -> None:
        self._control = control
        self._end = end
        self._uid = uid
        self._pid = pid
        self._number = 0

    @classmethod
    def start(cls, control: ControlSocket) -> SessionClient:
        """Have the launcher fork a session. Raises OSError when it cannot."""
        ours, theirs = socket.socketpair()
        try:
            started = control.ask(StartSession(), Started, (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(control, ours, started.uid, started.pid)

    def usage(self, enough_s: float) -> CpuUsage:
        """Return what the session and everything of its user id has computed, or ``enough_s`` of it."""
        return usage_of([] if self._pid is None else [self._pid], self._uid, enough_s)

    def run(
        self,
        code: str,
        capture: OutputCapture,
        allowance: Allowance,
        serve: Callable[[JsonObject], JsonObject] | None = None,
    ) -> int | None:
        """Run a cell; return 0, 1 after an exception, None when the session cannot be used any more."""
        # A new number for each cell: an answer that an earlier cell left in the socket carries an old one.
        self._number += 1
        deadline = allowance.end
        request = encode(RunCell(self._number, serves=serve is not None))
        try:
            send_packet(self._end, request, code.encode("utf-8", "replace"), (capture.writing,), deadline)
        except EOFError:
            return None
        except TimeoutError:
            allowance.blocked()
            return None
        finally:
            # The session has its own copy now. With ours open the pipe would never come to its end.
            capture.close_writing()
        answers: list[bool] = []

        def answered() -> bool:
            try:
                message = self._receive(deadline, _MAX_REPLY if serve is None else _MAX_QUESTION)
                if isinstance(message, CellDone) and message.number == self._number:
                    answers.append(message.ok)
                elif isinstance(message, Question) and message.cell == self._number and serve is not None:
                    self._answer(message, serve, deadline)
                # All else is ignored: a cell can write here whatever it likes, even after it is over.
            except EOFError:
                return True
            except TimeoutError:
                allowance.blocked()
                return True
            return bool(answers)

        capture.follow(allowance, {self._end.fileno(): answered})
        return int(not answers[0]) if answers else None

    def _answer(self, question: Question, serve: Callable[[JsonObject], JsonObject], deadline: float) -> None:
        """Answer a question, or refuse it: a cell that got no answer would wait until its deadline.

        Raises TimeoutError when the cell does not fetch the answer, EOFError when the session is gone.
        """
        reply: RunnerMessage
        if isinstance(question.request, dict):
            reply = QuestionAnswer(question.cell, question.question, serve(question.request))
        else:
            found = type(question.request).__name__
            detail = f"a question is a dictionary with JSON values, not {found}"
            reply = QuestionRefused(question.cell, question.question, detail)
        send_packet(self._end, encode(reply), deadline=deadline)

    def _receive(self, deadline: float, most: int = _MAX_REPLY) -> RunnerMessage | None:
        """Return the session's next message, None for what is none. Raises EOFError or TimeoutError."""
        value, _ = receive_packet(self._end, deadline, most, 0)
        try:
            return REPORTS.decode(value)
        except MessageError:
            return None

    def end_session(self) -> None:
        """Kill the session, and everything else of the agent with it: a session may have forked."""
        self.close()
        self._control.ask(KillAgent(), Done)

    def close(self) -> None:
        """Hang up; a session that waits for its next cell exits."""
        self._end.close()

    @property
    def ended(self) -> bool:
        """The session has ended by itself or was killed, as the next cell will find out."""
        poll = select.poll()
        poll.register(self._end, 0)
        hung_up = any(events & select.POLLHUP for _, events in poll.poll(0))
        return hung_up or (self._pid is not None and self._control.has_exited(self._pid))

    def fork(self) -> SessionClient:
        """Have the session fork; return the client of its copy, which ``introduce`` waits for.

        The copy of a session that has ended has ended as well.
        """
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(EOFError, TimeoutError):
            if self.ended:
                return SessionClient(self._control, ours, self._uid)
            deadline = time.monotonic() + _TIMEOUT_S
            send_packet(self._end, encode(ForkSession()), descriptors=(theirs.fileno(),), deadline=deadline)
        # The copy's pid is not known yet, and only agent code could say it: the launcher checks it.
        return SessionClient(self._control, ours, self._uid)

    def introduce(self, deadline: float) -> int:
        """Wait for the copy's first message; return the pid that it claims, 0 when none comes."""
        try:
            message = self._receive(deadline)
        except (EOFError, TimeoutError):
            return 0
        return message.pid if isinstance(message, SessionForked) else 0

    def move(self, old: str, new: str, deadline: float) -> bool:
        """Move a copy to its own workspace; False when it does not answer."""
        try:
            send_packet(self._end, encode(MoveSession(old, new)), deadline=deadline)
            self._receive(deadline)
        except (EOFError, TimeoutError):
            return False
        return True
