"""Look at folders that need not exist yet."""

from __future__ import annotations

import os
from pathlib import Path


def existing_part(path: Path) -> Path:
    """Return the absolute path if it exists, otherwise the nearest folder above it that does."""
    there = path.absolute()
    while not os.path.exists(there):  # noqa: PTH110 - unlike Path.exists, it raises nothing for closed folders
        there = there.parent
    return there


def may_fill(folder: Path) -> bool:
    """Return whether this user can make files in a folder, which is made first where it does not exist."""
    there = existing_part(folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
