"""What one instance's worker may ask of the launcher, over the instance's control socket.

Requests are answered in order; ``{"exit": pid, "code": code}`` comes unasked when a session, command or
candidate has ended, and by then nothing that it left behind is alive.
"""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from typing import TYPE_CHECKING

from sandbox_service.runner.io.message_socket import Message, receive, send
from sandbox_service.runner.untrusted.candidate import load_ahead
from sandbox_service.runner.untrusted.workspace_copy import copy_workspace

from . import spawn

if TYPE_CHECKING:
    import socket

    from .ownership import Premises
    from .uid_groups import Root

__all__ = ["Desk"]


class Desk:
    """The launcher's end of an instance's control socket."""

    def __init__(self, premises: Premises, serial: int, copy_of: int | None, control: socket.socket) -> None:
        self.control = control
        self._premises = premises
        self.serial = serial
        self._copying = 0
        premises.admit(serial, copy_of)

    def hear(self) -> bool:
        """Serve one request; False when the worker has hung up."""
        try:
            message, descriptors = receive(self.control, wait=False)
        except BlockingIOError:
            return True
        except (EOFError, OSError):
            return False
        try:
            answer = self._do(message, descriptors)
        except OSError as error:
            answer = {"error": error.strerror or str(error)}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if answer is not None:
            self._tell(answer)
        return True

    def close(self) -> None:
        """Hang up on the worker; what it started stays until the instance is released."""
        while self._copying:
            self._stop_copying()
        self.control.close()

    def root_ended(self, root: Root, code: int) -> None:
        """Tell the worker that a process of its instance has ended."""
        if root.kind == "copier":
            self._tell({"copied": code == 0})
        elif root.kind != "files":
            self._tell({"exit": root.pid, "code": code})

    def _tell(self, message: Message) -> None:
        # A worker that does not read is dead or dying; the runner sees to it.
        with contextlib.suppress(OSError):
            send(self.control, message, wait=False)

    def _do(self, message: Message, descriptors: list[int]) -> Message | None:
        what, premises, serial = str(message["do"]), self._premises, self.serial
        if what in ("session", "shell", "files", "candidate"):
            return self._start(what, message, descriptors)
        if what == "copy":
            self._copy(int(message["serial"]))
            return None
        if what == "adopt":
            adopted = message["pid"] is None or premises.adopt(int(message["pid"]), int(message["serial"]))
            self._stop_copying()
            return {"clean": adopted}
        return {"clean": self._end(what, message, premises, serial)}

    def _end(self, what: str, message: Message, premises: Premises, serial: int) -> bool:
        if what == "end":
            pid = int(message["pid"])
            return premises.end_root(pid) if premises.owns(serial, pid) else premises.end_strays()
        if what == "kill":
            return premises.kill_agent(serial)
        if what == "end_candidate":
            return premises.end_candidate(serial)
        if what == "freeze":
            return premises.freeze_agent(serial)
        if what == "thaw":
            return premises.signal_agent(serial, signal.SIGCONT)
        raise OSError(f"no such request: {what}")

    def _start(self, kind: str, message: Message, descriptors: list[int]) -> Message:
        if kind == "candidate":
            load_ahead(str(message.get("entry")))
        place = self._premises.place(self.serial, kind)
        run = {
            "session": partial(spawn.run_session, place),
            "shell": partial(spawn.run_shell, place),
            "files": partial(spawn.run_files, place),
            "candidate": partial(spawn.run_candidate, place, str(message.get("entry"))),
        }[kind]
        pid = self._premises.start(self.serial, kind, place, descriptors, run)
        return {"pid": pid, "uid": None if place.identity is None else place.identity.effective}

    def _copy(self, target: int) -> None:
        """Copy the workspace for a fork. Until ``adopt``, the session's copy is a child of unknown owner."""
        self._copying += 1
        self._premises.holds += 1
        self._tell({"copying": True})
        source = self._premises.config.workspace(self.serial)
        try:
            place = self._premises.place(target, "copier")
            run = partial(copy_workspace, place.directory, source, place.enter)
            self._premises.start(self.serial, "copier", place, [], run)
        except OSError:
            self._tell({"copied": False})

    def _stop_copying(self) -> None:
        if self._copying:
            self._copying -= 1
            self._premises.holds = max(0, self._premises.holds - 1)
            self._premises.end_strays()
