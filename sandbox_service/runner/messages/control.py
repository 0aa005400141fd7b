"""Messages between an instance's worker and the launcher, on the instance's control socket.

Requests are answered in order. ``ProcessExited`` comes unasked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .codec import Codec, RunnerMessage


@dataclass(frozen=True, slots=True)
class StartSession(RunnerMessage):
    """Start a Python session on the socket that comes with this."""

    kind: ClassVar[str] = "start_session"


@dataclass(frozen=True, slots=True)
class StartShell(RunnerMessage):
    """Run the command in the first descriptor that comes with this; the second takes its output."""

    kind: ClassVar[str] = "start_shell"


@dataclass(frozen=True, slots=True)
class StartProgram(RunnerMessage):
    """Start the program that the first descriptor describes; two more take its output and its errors."""

    kind: ClassVar[str] = "start_program"


@dataclass(frozen=True, slots=True)
class StartFiles(RunnerMessage):
    """Start a helper that answers one file request on the socket that comes with this."""

    kind: ClassVar[str] = "start_files"


@dataclass(frozen=True, slots=True)
class StartCandidate(RunnerMessage):
    """Start a candidate, ``module:function``, on the socket that comes with this."""

    kind: ClassVar[str] = "start_candidate"
    entry: str
    sockets: bool
    """Whether it may open sockets, apart from pairs."""


@dataclass(frozen=True, slots=True)
class CopyWorkspace(RunnerMessage):
    """Copy the workspace for a fork; ``CopyingStarted`` is the answer, and ``Copied`` follows."""

    kind: ClassVar[str] = "copy_workspace"
    serial: int


@dataclass(frozen=True, slots=True)
class AdoptSession(RunnerMessage):
    """End a fork: the session's copy, if there is one, becomes the other instance's."""

    kind: ClassVar[str] = "adopt_session"
    serial: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class EndProcess(RunnerMessage):
    """Kill a process of the instance with its descendants."""

    kind: ClassVar[str] = "end_process"
    pid: int


@dataclass(frozen=True, slots=True)
class KillAgent(RunnerMessage):
    """Kill all processes of the agent."""

    kind: ClassVar[str] = "kill_agent"


@dataclass(frozen=True, slots=True)
class FreezeAgent(RunnerMessage):
    """Stop all processes of the agent."""

    kind: ClassVar[str] = "freeze_agent"


@dataclass(frozen=True, slots=True)
class ThawAgent(RunnerMessage):
    """Resume all processes of the agent."""

    kind: ClassVar[str] = "thaw_agent"


@dataclass(frozen=True, slots=True)
class EndCandidate(RunnerMessage):
    """Kill the instance's candidate and remove what it wrote."""

    kind: ClassVar[str] = "end_candidate"


@dataclass(frozen=True, slots=True)
class Started(RunnerMessage):
    """A process has been started, under ``uid`` unless user ids are not dropped."""

    kind: ClassVar[str] = "started"
    pid: int
    uid: int | None


@dataclass(frozen=True, slots=True)
class CopyingStarted(RunnerMessage):
    """The launcher expects the session's copy from now on."""

    kind: ClassVar[str] = "copying_started"


@dataclass(frozen=True, slots=True)
class Copied(RunnerMessage):
    """The workspace has been copied, or could not be."""

    kind: ClassVar[str] = "copied"
    ok: bool


@dataclass(frozen=True, slots=True)
class Done(RunnerMessage):
    """The request was carried out; ``clean`` is False when something is left or was not possible."""

    kind: ClassVar[str] = "done"
    clean: bool


@dataclass(frozen=True, slots=True)
class Refused(RunnerMessage):
    """The launcher could not do it."""

    kind: ClassVar[str] = "refused"
    detail: str


@dataclass(frozen=True, slots=True)
class ProcessExited(RunnerMessage):
    """A session, command, program or candidate has ended, and nothing that it left behind is alive."""

    kind: ClassVar[str] = "process_exited"
    pid: int
    code: int
    """The exit code; negative for the signal that killed it."""


Request = (
    StartSession
    | StartShell
    | StartProgram
    | StartFiles
    | StartCandidate
    | CopyWorkspace
    | AdoptSession
    | EndProcess
    | KillAgent
    | FreezeAgent
    | ThawAgent
    | EndCandidate
)
REQUESTS = Codec[Request](
    StartSession,
    StartShell,
    StartProgram,
    StartFiles,
    StartCandidate,
    CopyWorkspace,
    AdoptSession,
    EndProcess,
    KillAgent,
    FreezeAgent,
    ThawAgent,
    EndCandidate,
)
ANSWERS = Codec[Started | CopyingStarted | Copied | Done | Refused | ProcessExited](
    Started, CopyingStarted, Copied, Done, Refused, ProcessExited
)
