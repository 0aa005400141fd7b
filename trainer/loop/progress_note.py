"""Note the newest complete checkpoint in a run's folder, apart from the checkpoints.

A run whose checkpoints were lost would begin again at its first step, under metrics and a journal of later
ones; by the note such a run is not taken for a new one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainer.durable_files import write_durably
from trainer.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import StagePlan

_FILE = "progress.json"


def write_progress(folder: Path, step: int, stage: str) -> None:
    """Note that the checkpoint after ``step`` steps, in a stage of this name, is complete."""
    write_durably(folder / _FILE, json.dumps({"step": step, "stage": stage}))


def read_progress(folder: Path) -> tuple[int, str] | None:
    """Return the steps before the newest checkpoint and the stage of the last one; None without any.

    Raises CheckpointError for an unreadable note.
    """
    try:
        noted = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return int(noted["step"]), str(noted["stage"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / _FILE} cannot be read: {error}") from error


def check_resumable(folder: Path, plan: StagePlan) -> None:
    """Check that a run without a checkpoint has never had one.

    Raises CheckpointError, naming the stage that cannot begin and the one whose checkpoint is missing.
    """
    progress = read_progress(folder)
    if progress is None:
        return
    step, stage = progress
    following = plan.from_step(step)
    what = f"stage {following[0].name} cannot begin" if following else "the run cannot be resumed"
    raise CheckpointError(
        f"{what}: the checkpoint of stage {stage} after step {step} is missing from "
        f"{folder / 'checkpoints'}; restore it, or start over with --force"
    )
