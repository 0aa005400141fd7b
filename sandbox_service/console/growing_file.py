"""Read the lines that were added to a file since it was last read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_COMPARED = 4096
"""Bytes before the place of reading by which a file is recognised."""


class GrowingFile:
    """A file to which its writer appends lines; one that was cut or replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._inode = 0
        self._before = b""
        """The last bytes that were read."""

    def read_new(self, begin_anew: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
        """Yield the complete lines that are new, each with its offset, as they are asked for.

        ``begin_anew`` is called before the first line of a file that is another one than before, or was cut.
        There are no lines while the file does not exist.
        """
        try:
            with self._path.open("rb") as file:
                if not self._is_continued(file):
                    self._inode, self._place, self._before = os.fstat(file.fileno()).st_ino, 0, b""
                    begin_anew()
                file.seek(self._place)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    place = self._place
                    self._place += len(line)
                    self._before = (self._before + line[-_COMPARED:])[-_COMPARED:]
                    yield place, line
        except OSError:
            return

    def line_at(self, place: int) -> bytes:
        """Return the line at an offset; empty if the file does not have it."""
        try:
            with self._path.open("rb") as file:
                file.seek(place)
                return file.readline()
        except OSError:
            return b""

    def _is_continued(self, file: BinaryIO) -> bool:
        """Return whether the file is the one that was read before, with all that it had then."""
        if os.fstat(file.fileno()).st_ino != self._inode:
            return False
        # File systems give the inode of a removed file to the next one.
        file.seek(self._place - len(self._before))
        return file.read(len(self._before)) == self._before


def last_lines(path: Path, most_bytes: int) -> list[bytes]:
    """Return the complete lines in the last bytes of a file, without their ends; none if it is unreadable."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - most_bytes)
            file.seek(start)
            lines = file.read(most_bytes).split(b"\n")
    except OSError:
        return []
    return lines[bool(start) : -1]
