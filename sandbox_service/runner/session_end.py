"""The worker's end of an agent's Python session."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from .packets import receive_packet, send_packet

if TYPE_CHECKING:
    from .capture import Capture
    from .control import Control

__all__ = ["SessionEnd"]

_MAX_REPLY = 4096
_PATIENCE_S = 5.0


class SessionEnd:
    """One session process; believed only as far as "this cell is over" goes."""

    def __init__(self, control: Control, end: socket.socket) -> None:
        self._control = control
        self._end = end

    @classmethod
    def start(cls, control: Control) -> SessionEnd:
        """Have the launcher fork a session. Raises OSError when it cannot."""
        ours, theirs = socket.socketpair()
        try:
            control.ask({"do": "session"}, (theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(control, ours)

    def run(self, code: str, capture: Capture, deadline: float) -> int | None:
        """Run a cell; 0, 1 after an exception, None when the session is of no more use."""
        source = code.encode("utf-8", "replace")
        try:
            send_packet(self._end, {"do": "cell"}, source, (capture.writing,), deadline)
        except (EOFError, TimeoutError):
            return None
        finally:
            capture.close_writing()
        answers: list[bool | None] = []

        def answered() -> bool:
            answers.append(self._answer(deadline))
            return True

        if not capture.follow(deadline, {self._end.fileno(): answered}) or answers[0] is None:
            return None
        return 0 if answers[0] else 1

    def _answer(self, deadline: float) -> bool | None:
        """What the session says of its cell; None when that is nonsense."""
        try:
            message, _, descriptors = receive_packet(self._end, deadline, _MAX_REPLY, 0)
        except (EOFError, TimeoutError):
            return None
        for descriptor in descriptors:
            os.close(descriptor)
        ok = message.get("ok")
        return ok if isinstance(ok, bool) else None

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
        return SessionEnd(self._control, ours)

    def introduce(self, deadline: float) -> int:
        """Wait until a copy has come to life; its pid, as it says, 0 when none does."""
        try:
            message, _, _ = receive_packet(self._end, deadline, _MAX_REPLY, 0)
            return int(message["pid"])
        except (EOFError, TimeoutError, KeyError, TypeError, ValueError, OverflowError):
            return 0

    def move(self, old: str, new: str, deadline: float) -> None:
        """Have a copy go to its own workspace. Raises OSError when it does not answer."""
        try:
            send_packet(self._end, {"do": "move", "old": old, "new": new}, deadline=deadline)
        except (EOFError, TimeoutError) as error:
            raise OSError("the session's copy does not listen") from error
        if self._answer(deadline) is None:
            raise OSError("the session's copy does not answer")
