"""Copies a workspace for a fork, under the agent's user id: files, directories, and links as links."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable

from sandbox_service.runner.kernel.removal import remove_tree

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


def copy_workspace(target: str, source: str, enter: Callable[[], None]) -> None:
    """Make ``target`` equal to ``source``; sockets, pipes and what cannot be read are left out."""
    remove_tree(target, os.geteuid())
    enter()
    try:
        origin = os.open(source, _DIRECTORY)
    except FileNotFoundError:
        return
    _copy_below(origin, os.open(".", _DIRECTORY))


def _copy_below(origin: int, copy: int) -> None:
    with os.scandir(origin) as entries:
        for entry in entries:
            # The agent's processes go on meanwhile; what they remove in between is left out.
            with contextlib.suppress(FileNotFoundError):
                _copy_entry(origin, copy, entry)


def _copy_entry(origin: int, copy: int, entry: os.DirEntry[str]) -> None:
    information = entry.stat(follow_symlinks=False)
    kind = stat.S_IFMT(information.st_mode)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink(entry.name, dir_fd=origin), entry.name, dir_fd=copy)
    elif kind == stat.S_IFREG:
        _copy_file(origin, copy, entry.name, information)
    elif kind == stat.S_IFDIR:
        _copy_directory(origin, copy, entry.name, information)


def _copy_directory(origin: int, copy: int, name: str, information: os.stat_result) -> None:
    os.mkdir(name, 0o700, dir_fd=copy)
    try:
        below = os.open(name, _DIRECTORY, dir_fd=origin)
    except PermissionError:
        return
    made = os.open(name, _DIRECTORY, dir_fd=copy)
    _copy_below(below, made)
    os.fchmod(made, stat.S_IMODE(information.st_mode))
    os.close(below)
    os.close(made)


def _copy_file(origin: int, copy: int, name: str, information: os.stat_result) -> None:
    try:
        reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=origin)
    except PermissionError:
        return
    writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=copy)
    while data := os.read(reading, _CHUNK):
        while data:
            data = data[os.write(writing, data) :]
    os.fchmod(writing, stat.S_IMODE(information.st_mode))
    os.utime(writing, ns=(information.st_atime_ns, information.st_mtime_ns))
    os.close(reading)
    os.close(writing)
