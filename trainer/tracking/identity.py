"""The name of a run at a tracking service, kept in the run's folder: a resumed run goes on under it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["remembered_id"]


def remembered_id(file: Path) -> str:
    """The id in the file; a new one, written there, the first time."""
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    made = uuid.uuid4().hex[:16]
    file.write_text(made + "\n", encoding="utf-8")
    return made
