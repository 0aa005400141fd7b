"""``run_id``: the id of the run in a folder, which stays when the run is resumed or its folder is moved."""

from __future__ import annotations

import uuid
from pathlib import Path

from trainer.durable_files import write_durably

RUN_ID = "run_id"
"""The file in the folder of a run."""


def write_run_id(folder: Path) -> None:
    """Give the new run in a folder an id of its own."""
    write_durably(folder / RUN_ID, f"{uuid.uuid4().hex}\n")


def read_run_id(folder: Path) -> str | None:
    """Return the id of the run in a folder; None where an earlier release began it, and for other folders."""
    try:
        return (folder / RUN_ID).read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None
