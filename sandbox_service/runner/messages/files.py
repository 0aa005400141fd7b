"""Messages between a worker and the helper that reaches a workspace's files: one request, one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sandbox_service.wire.json_types import JsonObject  # noqa: TC001 - the codec reads the fields' types

from .codec import Codec, RunnerMessage


@dataclass(frozen=True, slots=True)
class ReadFile(RunnerMessage):
    """Send a file's first bytes back."""

    kind: ClassVar[str] = "read_file"
    path: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class WriteFiles(RunnerMessage):
    """Write files, in order, from the bytes that come with this."""

    kind: ClassVar[str] = "write_files"
    files: list[Any]
    """Pairs of path and length."""


@dataclass(frozen=True, slots=True)
class ListFiles(RunnerMessage):
    """List what is below a path."""

    kind: ClassVar[str] = "list_files"
    path: str
    max_entries: int


@dataclass(frozen=True, slots=True)
class RemoveFiles(RunnerMessage):
    """Remove everything of the agent's below folders, which stay."""

    kind: ClassVar[str] = "remove_files"
    folders: list[Any]


@dataclass(frozen=True, slots=True)
class FilesDone(RunnerMessage):
    """The files are written or removed, or the bytes of a file come with this."""

    kind: ClassVar[str] = "files_done"


@dataclass(frozen=True, slots=True)
class FilesListed(RunnerMessage):
    """Files by path, size and whether they are directories."""

    kind: ClassVar[str] = "files_listed"
    files: list[JsonObject]
    truncated: bool
    """There are more."""


@dataclass(frozen=True, slots=True)
class PathRefused(RunnerMessage):
    """A path that leads out of the workspace or is none."""

    kind: ClassVar[str] = "path_refused"
    detail: str


@dataclass(frozen=True, slots=True)
class FileFailure(RunnerMessage):
    """The kernel refused a file."""

    kind: ClassVar[str] = "file_failure"
    errno: int
    path: str


REQUESTS = Codec[ReadFile | WriteFiles | ListFiles | RemoveFiles](
    ReadFile, WriteFiles, ListFiles, RemoveFiles
)
ANSWERS = Codec[FilesDone | FilesListed | PathRefused | FileFailure](
    FilesDone, FilesListed, PathRefused, FileFailure
)
