"""Reads, writes, lists and removes workspace files; runs in a short-lived process under the agent's user id.

Paths are walked component by component from the workspace's own descriptor and no symbolic link is ever
followed, so that none leads out; only regular files are read or written, so that no pipe or device blocks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.runner.io.packets import receive_packet, send_packet
from sandbox_service.runner.kernel.removal import remove_owned
from sandbox_service.runner.messages.codec import encode
from sandbox_service.runner.messages.files import (
    REQUESTS,
    FileFailure,
    FilesDone,
    FilesListed,
    ListFiles,
    PathRefused,
    ReadFile,
    RemoveFiles,
    WriteFiles,
)

if TYPE_CHECKING:
    import socket

    from sandbox_service.runner.messages.codec import RunnerMessage
    from sandbox_service.wire.json_types import JsonObject


_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking, because the open of a named pipe waits for its other end."""
_MOST_DEPTH = 128
_MOST_LISTED = 4 * 1024 * 1024
"""Bytes of JSON of a listing, which has to fit into a packet."""


def serve_files(control: socket.socket, workspace: str, enter: Callable[[], None]) -> None:
    """Answer one request: ``enter`` goes to the workspace, making it first where it is missing."""
    value, blob = receive_packet(control)
    request = REQUESTS.decode(value)
    answer: RunnerMessage = FilesDone()
    content = b""
    named = request.path if isinstance(request, ReadFile | ListFiles) else ""
    try:
        if isinstance(request, RemoveFiles):
            # Before the workspace is made, for which there may be no room.
            _remove(request.folders)
        enter()
        root = os.open(".", _DIRECTORY)
        match request:
            case WriteFiles(files):
                start = 0
                for named, size in files:
                    _write(root, components(named, workspace), blob[start : start + size])
                    start += size
            case ReadFile(path, max_bytes):
                content = _read(root, components(path, workspace), max_bytes)
            case ListFiles(path, max_entries):
                answer = _list(root, components(path, workspace), max_entries)
    except ValueError as error:
        answer = PathRefused(str(error))
    except OSError as error:
        answer = FileFailure(error.errno or errno.EIO, named)
    send_packet(control, encode(answer), content)


def components(path: str, workspace: str) -> list[str]:
    """Return the names on the way to ``path`` from the workspace. Raises ValueError when it leads out."""
    if "\0" in path or len(path) > 4096:
        raise ValueError("the path is malformed")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError("the path is malformed") from None
    if path.startswith("/"):
        if path != workspace and not path.startswith(workspace + "/"):
            raise ValueError("the path leaves the workspace")
        path = path[len(workspace) :]
    found: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not found:
                raise ValueError("the path leaves the workspace")
            found.pop()
        elif name not in ("", "."):
            found.append(name)
    if len(found) > _MOST_DEPTH:
        raise ValueError("the path is too deep")
    return found


def _descend(root: int, names: list[str], make: bool = False) -> int:
    """Return a descriptor of the directory that ``names`` lead to."""
    here = os.dup(root)
    for name in names:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            below = os.open(name, _DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def _regular(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a directory")
    if not stat.S_ISREG(mode):
        raise PermissionError(errno.EPERM, "not a regular file")


def _read(root: int, path: list[str], max_bytes: int) -> bytes:
    if not path:
        raise IsADirectoryError(errno.EISDIR, "a directory")
    descriptor = os.open(path[-1], os.O_RDONLY | _FILE, dir_fd=_descend(root, path[:-1]))
    _regular(descriptor)
    parts: list[bytes] = []
    while max_bytes > 0:
        part = os.read(descriptor, min(max_bytes, 1 << 20))
        if not part:
            break
        parts.append(part)
        max_bytes -= len(part)
    return b"".join(parts)


def _write(root: int, path: list[str], data: bytes) -> None:
    if not path:
        raise IsADirectoryError(errno.EISDIR, "a directory")
    parent = _descend(root, path[:-1], make=True)
    descriptor = os.open(path[-1], os.O_WRONLY | os.O_CREAT | _FILE, 0o666, dir_fd=parent)
    _regular(descriptor)
    os.ftruncate(descriptor, 0)
    while data:
        data = data[os.write(descriptor, data) :]
    os.close(descriptor)


def _remove(folders: list[str]) -> None:
    # With one id for all processes the runner's own files would be removed, too.
    if os.getuid() == os.geteuid():
        raise PermissionError(errno.EPERM, "the agent has no user id of its own")
    remove_owned(folders, os.geteuid())


def _list(root: int, path: list[str], max_entries: int) -> FilesListed:
    """Return everything below ``path``, breadth first, so that a cut list still shows the top."""
    found: list[JsonObject] = []
    size_of_found = 0
    waiting: deque[list[str]] = deque([path])
    while waiting:
        names = waiting.popleft()
        try:
            here = _descend(root, names)
        except OSError:
            if names == path:
                raise
            # The agent's processes go on while we look: what they remove or close in between is left out.
            continue
        with os.scandir(here) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            try:
                information = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_directory = stat.S_ISDIR(information.st_mode)
            place = [*names, entry.name]
            size = 0 if is_directory else information.st_size
            shown = os.fsencode("/".join(place)).decode("utf-8", "replace")
            described = {"path": shown, "size": size, "is_directory": is_directory}
            size_of_found += len(json.dumps(described))
            if len(found) == max_entries or size_of_found > _MOST_LISTED:
                os.close(here)
                return FilesListed(_sorted(found), truncated=True)
            found.append(described)
            if is_directory and len(place) < _MOST_DEPTH:
                waiting.append(place)
        os.close(here)
    return FilesListed(_sorted(found), truncated=False)


def _sorted(entries: list[JsonObject]) -> list[JsonObject]:
    return sorted(entries, key=lambda entry: str(entry["path"]))
