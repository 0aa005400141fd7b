"""Errors that would come again, however often the workers begin again: the run ends with the first of them.

Ray Train knows no error that is not worth a restart. So the worker that meets one writes it down in the run's
folder, the group that is started next sees it and returns at once, and the driver raises it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainer import errors
from trainer.errors import CheckpointError, ConfigError, DataError, NoProgress, StaleWeights, TrainerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["final_error", "forget_final", "noting_final"]

_FINAL = (CheckpointError, ConfigError, DataError, NoProgress, StaleWeights)
_NOTE = "final_error.json"


@contextmanager
def noting_final(folder: Path) -> Iterator[None]:
    """An error of the block that would come again is written down in the run's folder, and goes on."""
    try:
        yield
    except _FINAL as error:
        kind = next(kind for kind in _FINAL if isinstance(error, kind))  # Ray's own subclasses are as good
        draft = folder / f"{_NOTE}.draft"
        draft.write_text(json.dumps({"kind": kind.__name__, "sentence": str(error)}), encoding="utf-8")
        draft.replace(folder / _NOTE)
        raise


def final_error(folder: Path) -> TrainerError | None:
    """What a worker of this run met, if anything."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    kind: type[TrainerError] = getattr(errors, note["kind"])
    return kind(note["sentence"])


def forget_final(folder: Path) -> None:
    """The run is tried again."""
    (folder / _NOTE).unlink(missing_ok=True)
