"""The id of a run at a tracking service, kept in the run's folder so that a resumed run continues it."""

from __future__ import annotations

import uuid
from pathlib import Path


def remembered_id(file: Path) -> str:
    """Return the id in the file, or generate and write one."""
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    made = uuid.uuid4().hex[:16]
    file.write_text(made + "\n", encoding="utf-8")
    return made
