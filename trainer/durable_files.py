"""Files that are whole, or as they were before, after a power failure too."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_durably(file: Path, content: str | bytes, sync: Callable[[int], None] = os.fsync) -> None:
    """Create or replace a file at once, and return when it is on the disk."""
    draft = file.with_name(f"{file.name}.draft")
    with draft.open("wb") as out:
        out.write(content.encode() if isinstance(content, str) else content)
        out.flush()
        sync(out.fileno())  # before the new name, which may reach the disk ahead of the content
    draft.replace(file)
    _sync_names(file.parent, sync)


def sync_files(folder: Path, sync: Callable[[int], None] = os.fsync) -> None:
    """Return when the files of a folder, without its folders, are on the disk."""
    for file in folder.iterdir():
        if file.is_file():
            with file.open("rb") as content:
                sync(content.fileno())
    _sync_names(folder, sync)


def _sync_names(folder: Path, sync: Callable[[int], None]) -> None:
    names = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # there are network file systems that synchronise files alone
            sync(names)
    finally:
        os.close(names)
