"""Files to which lines are appended, by processes that may be killed while they write one."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024


def cut_torn_line(file: Path) -> None:
    """Cut off what an interrupted process left behind the last line feed; the rest is not read."""
    if not file.exists():
        return
    with file.open("r+b") as lines:
        lines.truncate(_end_of_lines(lines))


def torn_line(file: Path) -> bytes:
    """Return what is behind the last line feed of a file."""
    with file.open("rb") as lines:
        lines.seek(_end_of_lines(lines))
        return lines.read()


def _end_of_lines(lines: BinaryIO) -> int:
    """Return the place behind the last line feed."""
    end = lines.seek(0, 2)
    while end:
        begin = max(0, end - _BLOCK)
        lines.seek(begin)
        found = lines.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
