"""The Agent that a world is given: the worker's side of sessions, commands, files and candidates.

Processes are made and ended by the launcher; their data comes here directly, so that the launcher never sees
any. All that comes from an agent's process is output, bounded in size and in time.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from sandbox_service.runner.io.packets import MAX_BLOB, receive_packet, send_packet
from sandbox_service.runner.kernel.cpu_usage import CpuUsage, usage_of
from sandbox_service.runner.messages.codec import MessageError, encode
from sandbox_service.runner.messages.control import (
    AdoptSession,
    Copied,
    CopyingStarted,
    CopyWorkspace,
    Done,
    EndProcess,
    FreezeAgent,
    KillAgent,
    Started,
    StartFiles,
    StartShell,
    ThawAgent,
)
from sandbox_service.runner.messages.files import ANSWERS as FILE_ANSWERS
from sandbox_service.runner.messages.files import (
    FileFailure,
    FilesDone,
    FilesListed,
    ListFiles,
    PathRefused,
    ReadFile,
    RemoveFiles,
    WriteFiles,
)
from sandbox_service.runner.world import Execution, FileInfo, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .allowance import Allowance, kept_waiting
from .candidate_client import CandidateClient
from .output_capture import OutputCapture
from .session_client import SessionClient

if TYPE_CHECKING:
    from sandbox_service.runner.messages.codec import RunnerMessage
    from sandbox_service.wire.json_types import JsonObject

    from .control import ControlSocket


_FILE_TIMEOUT_S = 30.0

F = TypeVar("F", bound="RunnerMessage")


class RunnerAgent:
    """Implements ``runner.world.Agent``."""

    def __init__(self, control: ControlSocket, workspace: str) -> None:
        self._control = control
        self._workspace = workspace
        self._session: SessionClient | None = None
        self._candidate: CandidateClient | None = None

    @property
    def workspace(self) -> str:
        return self._workspace

    @property
    def control(self) -> ControlSocket:
        """The requests to the launcher."""
        return self._control

    def python(
        self,
        code: str,
        timeout_s: float,
        max_output: int = 65536,
        serve: Callable[[JsonObject], JsonObject] | None = None,
        wall_timeout_s: float | None = None,
    ) -> Execution:
        started = time.monotonic()
        if self._session is None:
            try:
                self._session = SessionClient.start(self._control)
            except OSError as error:
                # The agent itself may have used up the processes that it is allowed.
                return Execution(f"cannot start: {error}\n", None, died=True)
        session, capture = self._session, OutputCapture(max_output)
        # What we compute meanwhile answers its questions and takes its output.
        allowance = Allowance(
            timeout_s,
            wall_timeout_s or timeout_s,
            lambda enough_s: session.usage(enough_s) + CpuUsage(time.process_time()),
            still=self.still,
        )
        code_or_none = session.run(code, capture, allowance, serve)
        timed_out = code_or_none is None and allowance.over()
        if code_or_none is None:
            # Ended by the deadline, by itself, or no longer understandable: a new one at the next cell.
            self._session = None
            session.end_session()
        capture.finish()
        if timed_out:
            self._blame(allowance)
        return Execution(
            output=capture.text,
            exit_code=code_or_none,
            timed_out=timed_out,
            truncated=capture.truncated,
            died=code_or_none is None and not timed_out,
            duration_s=time.monotonic() - started,
            waited_s=allowance.waited_s,
        )

    def shell(
        self, command: str, timeout_s: float, max_output: int = 65536, wall_timeout_s: float | None = None
    ) -> Execution:
        started = time.monotonic()
        capture = OutputCapture(max_output)
        script = os.memfd_create("command")
        with open(script, "wb", closefd=False) as file:
            file.write(command.encode("utf-8", "replace"))
        # The shell reads a long command as a script, from the position that both descriptors share.
        os.lseek(script, 0, os.SEEK_SET)
        try:
            started_process = self._control.ask(StartShell(), Started, (script, capture.writing))
        except OSError as error:
            capture.close_writing()
            capture.finish()
            return Execution(f"cannot start: {error}\n", None, died=True)
        finally:
            os.close(script)
        capture.close_writing()
        pid, uid = started_process.pid, started_process.uid
        allowance = Allowance(
            timeout_s,
            wall_timeout_s or timeout_s,
            lambda enough_s: usage_of([pid], uid, enough_s),
            still=self.still,
        )
        codes: list[int] = []

        def exited() -> bool:
            self._control.receive_reports()
            code = self._control.exit_code(pid)
            if code is not None:
                codes.append(code)
            return code is not None

        in_time = capture.follow(allowance, {self._control.end.fileno(): exited})
        if not in_time:
            # Before the rest of the output is taken: what lives could go on writing.
            self._control.ask(EndProcess(pid), Done)
        capture.finish()
        if not in_time:
            self._blame(allowance)
        code = codes[0] if codes else None
        return Execution(
            output=capture.text,
            exit_code=code if code is not None and code >= 0 else None,
            timed_out=not in_time,
            truncated=capture.truncated,
            died=code is not None and code < 0,
            duration_s=time.monotonic() - started,
            waited_s=allowance.waited_s,
        )

    def read_file(self, path: str, max_bytes: int) -> bytes:
        return self._file(ReadFile(path, max_bytes), FilesDone)[1]

    def write_file(self, path: str, data: bytes) -> None:
        self.write_files({path: data})

    def write_files(self, files: Mapping[str, bytes]) -> None:
        batch: dict[str, bytes] = {}
        size = 0
        for path, data in files.items():
            if batch and size + len(data) > MAX_BLOB:
                self._write(batch)
                batch, size = {}, 0
            batch[path] = data
            size += len(data)
        if batch:
            self._write(batch)

    def _write(self, batch: dict[str, bytes]) -> None:
        sizes = [[path, len(data)] for path, data in batch.items()]
        self._file(WriteFiles(sizes), FilesDone, b"".join(batch.values()))

    def list_files(self, path: str = ".", max_entries: int = 1000) -> list[FileInfo]:
        return self.find_files(path, max_entries)[0]

    def find_files(self, path: str, max_entries: int) -> tuple[list[FileInfo], bool]:
        """Return the files below ``path``, sorted by path, and whether there are more."""
        answer, _ = self._file(ListFiles(path, max_entries), FilesListed)
        files = [FileInfo(entry["path"], entry["size"], entry["is_directory"]) for entry in answer.files]
        return files, answer.truncated

    def remove_files(self, folders: Sequence[str], timeout_s: float) -> None:
        self._file(RemoveFiles(list(folders)), FilesDone, timeout_s=min(timeout_s, _FILE_TIMEOUT_S))

    def _file(
        self, request: RunnerMessage, kind: type[F], data: bytes = b"", timeout_s: float = _FILE_TIMEOUT_S
    ) -> tuple[F, bytes]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._control.send(StartFiles(), (theirs.fileno(),))
            deadline = time.monotonic() + timeout_s
            try:
                value, content = self._converse(ours, request, data, deadline)
            except EOFError as error:
                raise OSError("the file helper ended") from error
            except TimeoutError:
                if kept_waiting(0.0, timeout_s, timeout_s, self.still):
                    raise WorldError(
                        "the machine is too busy to reach a file", BoxErrorCode.STEP_TIMEOUT
                    ) from None
                raise
        try:
            answer = FILE_ANSWERS.decode(value)
        except MessageError as error:
            raise OSError(f"the file helper's answer is malformed: {error}") from error
        if isinstance(answer, PathRefused):
            raise ValueError(answer.detail)  # noqa: TRY004  # as ``open`` does for such a path
        if isinstance(answer, FileFailure):
            raise OSError(answer.errno, os.strerror(answer.errno), answer.path)
        if not isinstance(answer, kind):
            raise OSError(f"the file helper answered {answer.kind}, not {kind.kind}")
        return answer, content

    def _converse(
        self, end: socket.socket, request: RunnerMessage, data: bytes, deadline: float
    ) -> tuple[JsonObject, bytes]:
        """Ask the file helper that the launcher was just told to start, and take the launcher's answer."""
        try:
            # While the helper comes to life; when it cannot, the launcher's answer says why.
            send_packet(end, encode(request), data, deadline=deadline)
            return receive_packet(end, deadline)
        finally:
            # Before anything else is asked of the launcher, which answers in order.
            self._control.answer(Started)

    def _blame(self, allowance: Allowance) -> None:
        """Raise WorldError when agent code was ended for what the machine did."""
        if allowance.starved():
            raise WorldError(
                f"the machine is too busy: agent code got {allowance.charged_s:.1f} s of its time in"
                f" {allowance.wall_timeout_s:g} s; take a new instance, and run fewer at a time",
                BoxErrorCode.STEP_TIMEOUT,
            )

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        try:
            try:
                self.freeze()
            except OSError:
                self.kill()
            yield
        finally:
            # Whatever went wrong: a part of the agent may have been stopped.
            self.thaw()

    def freeze(self) -> None:
        if not self._control.ask(FreezeAgent(), Done).clean:
            raise OSError("a process of the agent could not be stopped")

    def thaw(self) -> None:
        self._control.ask(ThawAgent(), Done)

    def kill(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        if not self._control.ask(KillAgent(), Done).clean:
            raise OSError("a process of the agent could not be killed")
        self._control.forget_exits()

    def candidate(self, entry: str, *, sockets: bool = False) -> CandidateClient:
        if self._candidate is not None and not self._candidate.closed:
            raise RuntimeError("an instance has one candidate at a time")
        self._candidate = CandidateClient.start(self._control, entry, sockets=sockets)
        return self._candidate

    def begin_copy(self, serial: int) -> SessionClient | None:
        """Start copying workspace and session for a fork; the copy's session, if there is one."""
        # First the launcher, then the session: until the launcher expects a session's copy, it kills it as an
        # orphan. It answers before it starts the copier, so that both copies come to life side by side.
        self._control.ask(CopyWorkspace(serial), CopyingStarted)
        return None if self._session is None else self._session.fork()

    def finish_copy(
        self, serial: int, workspace: str, session: SessionClient | None, deadline: float
    ) -> None:
        """Wait until the copies stand. Raises OSError when the agent's session does not take part."""
        if self._session is None or self._session.ended:
            session = None
        pid = None if session is None else session.introduce(deadline)
        # Answered in order: the copy of the workspace first. The launcher needs both, come what may.
        copied = self._control.answer(Copied).ok
        self._control.send(AdoptSession(serial, pid))
        moved = True
        if session is not None and pid and copied:
            moved = session.move(self._workspace, workspace, deadline)
        adopted = self._control.answer(Done).clean
        if not copied:
            raise OSError("the workspace could not be copied")
        if session is not None and not (pid and adopted):
            raise OSError("the session did not fork")
        if not moved:
            raise OSError("the session's copy does not answer")

    def become_copy(self, control: socket.socket, workspace: str, session: SessionClient | None) -> None:
        """Continue as the copy, with the copy's own sockets and workspace."""
        if self._session is not None:
            self._session.close()
        self._control.replace(control)
        self._workspace = workspace
        self._session = session
        self._candidate = None
