"""Answers what one instance's worker asks of the launcher, over the instance's control socket.

A request acts on the handler's own instance, and on the copy that a fork names. What is no request is
refused, and the launcher goes on: a worker runs an environment's code.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.io.message_socket import receive, send
from sandbox_service.runner.messages.codec import MessageError
from sandbox_service.runner.messages.control import (
    REQUESTS,
    AdoptSession,
    Copied,
    CopyingStarted,
    CopyWorkspace,
    Done,
    EndCandidate,
    EndProcess,
    FreezeAgent,
    KillAgent,
    ProcessExited,
    Refused,
    StartCandidate,
    Started,
    StartFiles,
    StartProgram,
    StartSession,
    StartShell,
    ThawAgent,
)
from sandbox_service.runner.untrusted.candidate import load_ahead
from sandbox_service.runner.untrusted.workspace_copy import copy_workspace

from . import spawn

if TYPE_CHECKING:
    import socket

    from sandbox_service.runner.messages.codec import RunnerMessage

    from .ownership import Ownership
    from .spawn import ChildContext
    from .uid_groups import AgentProcess


class RequestHandler:
    """The launcher's end of an instance's control socket."""

    def __init__(
        self, ownership: Ownership, serial: int, copy_of: int | None, control: socket.socket
    ) -> None:
        self.control = control
        self._ownership = ownership
        self.serial = serial
        self._copying = 0
        self._actions: dict[type[RunnerMessage], Callable[[Any, list[int]], RunnerMessage | None]] = {
            StartSession: lambda _, fds: self._start("session", spawn.run_session, fds),
            StartShell: lambda _, fds: self._start("shell", spawn.run_shell, fds),
            StartProgram: lambda _, fds: self._start("program", spawn.run_program, fds),
            StartFiles: lambda _, fds: self._start("files", spawn.run_files, fds),
            StartCandidate: self._start_candidate,
            CopyWorkspace: self._copy,
            AdoptSession: self._adopt,
            EndProcess: self._end_process,
            KillAgent: lambda *_: Done(ownership.kill_agent(serial)),
            EndCandidate: lambda *_: Done(ownership.end_candidate(serial)),
            FreezeAgent: lambda *_: Done(ownership.freeze_agent(serial)),
            ThawAgent: lambda *_: Done(ownership.signal_agent(serial, signal.SIGCONT)),
        }
        ownership.add_instance(serial, copy_of)

    def receive_request(self) -> bool:
        """Serve one request; False when the worker has hung up."""
        try:
            request, descriptors = receive(self.control, REQUESTS, wait=False)
        except BlockingIOError:
            return True
        except MessageError as error:
            self._send(Refused(str(error)))
            return True
        except (EOFError, OSError):
            return False
        answer: RunnerMessage | None
        try:
            answer = self._actions[type(request)](request, descriptors)
        except OSError as error:
            answer = Refused(error.strerror or str(error))
        except KeyError as error:
            # The worker named another instance, and the launcher has none of that number (any more).
            answer = Refused(f"there is no instance {error}")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if answer is not None:
            self._send(answer)
        return True

    def close(self) -> None:
        """Hang up on the worker; what it started stays until the instance is released."""
        while self._copying:
            self._stop_copying()
        self.control.close()

    def process_ended(self, process: AgentProcess, code: int) -> None:
        """Report to the worker that a process of its instance has ended."""
        if process.kind == "copier":
            self._send(Copied(code == 0))
        elif process.kind != "files":
            self._send(ProcessExited(process.pid, code))

    def _send(self, message: RunnerMessage) -> None:
        # Never wait here: all other instances would wait, too. A worker that does not read is dead or dying,
        # and the main process kills it at its deadline.
        with contextlib.suppress(OSError):
            send(self.control, message, wait=False)

    def _start(self, kind: str, run: Callable[[ChildContext], None], descriptors: list[int]) -> Started:
        context = self._ownership.place(self.serial, kind)
        pid = self._ownership.start(self.serial, kind, context, descriptors, partial(run, context))
        return Started(pid, None if context.identity is None else context.identity.effective)

    def _start_candidate(self, request: StartCandidate, descriptors: list[int]) -> Started:
        load_ahead(request.entry)
        run = partial(spawn.run_candidate, entry=request.entry, sockets=request.sockets)
        return self._start("candidate", run, descriptors)

    def _end_process(self, request: EndProcess, _: list[int]) -> Done:
        owns = self._ownership.owns(self.serial, request.pid)
        return Done(self._ownership.end_process(request.pid) if owns else self._ownership.end_orphans())

    def _copy(self, request: CopyWorkspace, _: list[int]) -> None:
        """Copy the workspace for a fork; ``Copied`` follows when the copier has ended."""
        # Count the fork before the answer, on which the worker has the session fork: until ``AdoptSession``
        # its copy is a child of the launcher that nobody owns, and would be killed as an orphan.
        self._copying += 1
        self._ownership.forks_in_progress += 1
        self._send(CopyingStarted())
        source = self._ownership.config.workspace(self.serial)
        try:
            context = self._ownership.place(request.serial, "copier")
            run = partial(copy_workspace, context.directory, source, context.enter)
            self._ownership.start(self.serial, "copier", context, [], run)
        except (OSError, KeyError):
            self._send(Copied(False))

    def _adopt(self, request: AdoptSession, _: list[int]) -> Done:
        try:
            adopted = request.pid is None or self._ownership.adopt(request.pid, request.serial)
        finally:
            # After the adoption: this kills the children that nobody owns. In any case: while a fork counts
            # as under way, no orphan of any instance is killed.
            self._stop_copying()
        return Done(adopted)

    def _stop_copying(self) -> None:
        if self._copying:
            self._copying -= 1
            self._ownership.forks_in_progress = max(0, self._ownership.forks_in_progress - 1)
            self._ownership.end_orphans()
