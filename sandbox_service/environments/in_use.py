"""Mark folders and files that a running process uses, so that no clean-up removes them.

A mark is a shared lock on the folder or file itself, which the kernel drops when the process ends, however it
ends. The clean-up needs the exclusive lock of what it removes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class UseMarks:
    """The marks of this process."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def add(self, path: Path) -> None:
        """Mark a folder or file. Raises OSError if it cannot be marked or is just being removed."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptors.append(descriptor)

    def close(self) -> None:
        """Remove the marks. Idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())


@contextmanager
def reserved(path: Path) -> Iterator[bool]:
    """Yield whether no process uses a folder or file; if so, none can mark it within the block.

    A path that is missing is unused. One that cannot be locked, as on some network file systems, counts as
    used.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    try:
        free = False
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(descriptor)
