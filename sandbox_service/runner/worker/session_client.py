"""The worker's end of an agent's Python session."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import JsonObject, receive_packet, send_packet
from sandbox_service.runner.kernel.cpu_usage import usage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.runner.kernel.cpu_usage import Usage

    from .allowance import Allowance
    from .control import Control
    from .output_capture import Capture

__all__ = ["SessionEnd"]

_MAX_REPLY = 4096
_MAX_QUESTION = 4 << 20
_PATIENCE_S = 5.0


class SessionEnd:
    """One session process; believed only as far as "this cell is over" goes."""

    def __init__(self, control: Control, end: socket.socket, uid: int | None, pid: int | None = None) -> None:
        self._control = control
        self._end = end
        self._uid = uid
        self._pid = pid
        self._number = 0

    @classmethod
    def start(cls, control: Control) -> SessionEnd:
        """Have the launcher fork a session. Raises OSError when it cannot."""
        ours, theirs = socket.socketpair()
        try:
            started = control.ask({"do": "session"}, (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(control, ours, started["uid"], started["pid"])

    def usage(self) -> Usage:
        """A look at the session and at all that runs as its user."""
        return usage_of([] if self._pid is None else [self._pid], self._uid)

    def run(
        self,
        code: str,
        capture: Capture,
        allowance: Allowance,
        serve: Callable[[JsonObject], JsonObject] | None = None,
    ) -> int | None:
        """Run a cell; 0, 1 after an exception, None when the session is of no more use."""
        self._number += 1
        deadline = allowance.end
        request = {"do": "cell", "number": self._number, "serves": serve is not None}
        try:
            send_packet(self._end, request, code.encode("utf-8", "replace"), (capture.writing,), deadline)
        except EOFError:
            return None
        except TimeoutError:
            allowance.blocked()
            return None
        finally:
            capture.close_writing()
        answers: list[bool] = []

        def answered() -> bool:
            try:
                message = self._receive(deadline, _MAX_REPLY if serve is None else _MAX_QUESTION)
                # Words about another cell are an echo of something that a cell has written here.
                if message.get("number") != self._number:
                    return False
                if serve is not None and isinstance(message.get("ask"), int):
                    self._answer(message, serve, deadline)
                else:
                    answers.append(message.get("ok") is True)
            except EOFError:
                return True
            except TimeoutError:
                allowance.blocked()
                return True
            return bool(answers)

        capture.follow(allowance, {self._end.fileno(): answered})
        return int(not answers[0]) if answers else None

    def _answer(
        self, message: JsonObject, serve: Callable[[JsonObject], JsonObject], deadline: float
    ) -> None:
        """Answer a question, whatever it is; who does not fetch the answer in time is late himself."""
        request = message.get("request")
        value = serve(request if isinstance(request, dict) else {})
        reply = {"answer": message["ask"], "number": self._number, "value": value}
        send_packet(self._end, reply, deadline=deadline)

    def _receive(self, deadline: float, most: int = _MAX_REPLY) -> JsonObject:
        """What the session says next. Raises EOFError or TimeoutError."""
        return receive_packet(self._end, deadline, most, 0)[0]

    def end(self) -> None:
        """Kill the session with everything else of the agent."""
        self.close()
        self._control.ask({"do": "kill"})

    def close(self) -> None:
        """Hang up; a session that reads this leaves."""
        self._end.close()

    def fork(self) -> SessionEnd:
        """Ask the session for a copy of itself."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(EOFError, TimeoutError):
            deadline = time.monotonic() + _PATIENCE_S
            send_packet(self._end, {"do": "fork"}, descriptors=(theirs.fileno(),), deadline=deadline)
        # What pid the copy has, only the copy could say here.
        return SessionEnd(self._control, ours, self._uid)

    def introduce(self, deadline: float) -> int:
        """Wait until a copy has come to life; its pid, as it says, 0 when none does."""
        try:
            return int(self._receive(deadline)["pid"])
        except (EOFError, TimeoutError, KeyError, TypeError, ValueError, OverflowError):
            return 0

    def move(self, old: str, new: str, deadline: float) -> bool:
        """Have a copy go to its own workspace; False when it does not answer."""
        try:
            send_packet(self._end, {"do": "move", "old": old, "new": new}, deadline=deadline)
            self._receive(deadline)
        except (EOFError, TimeoutError):
            return False
        return True
