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
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # there are network file systems that synchronise files alone
            sync(folder)
    finally:
        os.close(folder)
