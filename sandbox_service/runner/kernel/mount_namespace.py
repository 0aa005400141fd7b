"""Private folders of an instance: a mount namespace in which all that agents can write is its own.

Where the launcher may mount, the processes of an instance find empty folders, bounded in bytes and in files,
in place of those that all instances of a box would share. No neighbour sees or fills them, and they are gone
with the namespace: what an agent left there is neither searched nor removed file by file.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass

from . import privileges

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
_FLAGS = {"rw": 0, "exec": 0, "nosuid": 2, "nodev": 4, "noexec": 8}


@dataclass(frozen=True, slots=True)
class MountNamespace:
    """A mount namespace; it lives as long as the descriptor, or a process in it."""

    fd: int
    """The namespace, as ``/proc/PID/ns/mnt`` names it."""

    @classmethod
    def create(cls, private_folders: Mapping[str, str]) -> MountNamespace:
        """Make a namespace with a tmpfs at each path of ``private_folders``, mounted with its options.

        The calling process must have one thread, and is where it was afterwards, but for its working
        directory, which is the root. Raises OSError.
        """
        # Opened before the process leaves it: afterwards nothing names the way back.
        outside = _outside()
        privileges.check(privileges.libc().unshare(_CLONE_NEWNS))
        try:
            # Before any mount: with shared propagation it would appear outside, too.
            _mount("none", "/", None, _MS_REC | _MS_PRIVATE, "")
            for path, options in private_folders.items():
                words = options.split(",")
                flags = sum(_FLAGS.get(word, 0) for word in words)
                bounds = ",".join(word for word in words if word not in _FLAGS)
                _mount("tmpfs", path, "tmpfs", flags, bounds)
            return cls(os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            _enter(outside)

    def enter(self) -> None:
        """Move the calling process, which must have one thread, into the namespace."""
        _enter(self.fd)


@functools.cache
def _outside() -> int:
    """Return the namespace that the launcher itself is in."""
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _enter(namespace: int) -> None:
    privileges.check(privileges.libc().setns(namespace, _CLONE_NEWNS))


def _mount(source: str, target: str, kind: str | None, flags: int, data: str) -> None:
    texts = (source, target, kind)
    source_, target_, kind_ = (None if text is None else os.fsencode(text) for text in texts)
    libc = privileges.libc()
    privileges.check(libc.mount(source_, target_, kind_, ctypes.c_ulong(flags), data.encode()))
