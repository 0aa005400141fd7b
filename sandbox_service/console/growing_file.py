"""Read the lines that were added to a file since it was last read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class GrowingFile:
    """A file to which its writer appends lines; one that was cut or replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._inode = 0

    def read_new(self) -> tuple[bool, list[tuple[int, bytes]]]:
        """Return whether the file began anew, and the complete lines that are new, each with its offset.

        There are none while the file does not exist.
        """
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                anew = status.st_ino != self._inode or status.st_size < self._place
                if anew:
                    self._inode, self._place = status.st_ino, 0
                return anew, list(self._complete_lines(file))
        except OSError:
            return False, []

    def line_at(self, place: int) -> bytes:
        """Return the line at an offset; empty if the file does not have it."""
        try:
            with self._path.open("rb") as file:
                file.seek(place)
                return file.readline()
        except OSError:
            return b""

    def _complete_lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        file.seek(self._place)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield self._place, line
            self._place += len(line)
