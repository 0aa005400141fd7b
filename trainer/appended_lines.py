"""Files to which lines are appended, by processes that may be killed while they write one."""

from __future__ import annotations

from pathlib import Path

_BLOCK = 64 * 1024


def cut_torn_line(file: Path) -> None:
    """Cut off what an interrupted process left behind the last line feed; the rest is not read."""
    if not file.exists():
        return
    with file.open("r+b") as lines:
        end = size = lines.seek(0, 2)
        while end:
            begin = max(0, end - _BLOCK)
            lines.seek(begin)
            found = lines.read(end - begin).rfind(b"\n")
            if found >= 0:
                end = begin + found + 1
                break
            end = begin
        if end < size:
            lines.truncate(end)
