"""Fatal errors: a restart of the workers would hit them again, so the first one ends the run.

Ray Train restarts workers after any error. So the worker that hits a fatal one records it in the run's
folder, the next worker group sees the record and returns at once, and the driver raises the error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer import errors
from trainer.errors import (
    BudgetSpent,
    CheckpointError,
    ConfigError,
    DataError,
    NoProgress,
    RunEnded,
    StaleWeights,
    TrainerError,
)

_FINAL = (BudgetSpent, CheckpointError, ConfigError, DataError, NoProgress, RunEnded, StaleWeights)
_NOTE = "final_error.json"


@contextmanager
def noting_final(folder: Path) -> Iterator[None]:
    """Record a fatal error of the block in the run's folder, and re-raise it."""
    try:
        yield
    except _FINAL as error:
        kind = next(
            kind for kind in _FINAL if isinstance(error, kind)
        )  # Ray's wrappers are subclasses of both RayTaskError and the original class
        draft = folder / f"{_NOTE}.{os.getpid()}.draft"  # several ranks may fail at once
        draft.write_text(json.dumps({"kind": kind.__name__, "sentence": str(error)}), encoding="utf-8")
        draft.replace(folder / _NOTE)
        raise


def final_error(folder: Path) -> TrainerError | None:
    """Return the fatal error that a worker of this run recorded, if any."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    kind: type[TrainerError] = getattr(errors, note["kind"])
    return kind(note["sentence"])


def forget_final(folder: Path) -> None:
    """Delete the record, for a new attempt."""
    (folder / _NOTE).unlink(missing_ok=True)
