"""Read the lines that were added to a file since it was last read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


class GrowingFile:
    """A file to which its writer appends lines; one that was cut or replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._inode = 0

    def read_new(self, begin_anew: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
        """Yield the complete lines that are new, each with its offset, as they are asked for.

        ``begin_anew`` is called before the first line of a file that is another one than before, or was cut.
        There are no lines while the file does not exist.
        """
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._place:
                    self._inode, self._place = status.st_ino, 0
                    begin_anew()
                file.seek(self._place)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    place = self._place
                    self._place += len(line)
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
