"""Note in a run's folder of the weights that it began with, so that a resumed run goes on from the same.

A checkpoint has the trained weights alone. Adapters that were trained on one base would be loaded onto
another that is in its folder now, and be wrong there without an error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainer.durable_files import write_durably
from trainer.errors import CheckpointError, ConfigError
from trainer.update.pretrained import PretrainedFiles

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "base_model.json"


def write_base_note(folder: Path, model: Path) -> None:
    """Note the weights in a model's folder in the folder of a run. Raises ConfigError without weights."""
    write_durably(folder / _FILE, json.dumps({"weights": PretrainedFiles.of(model).digest()}))


def check_same_base(folder: Path, model: Path) -> None:
    """Check that a model's folder has the weights with which the run in a folder began, if they were noted.

    Raises ConfigError for other weights, CheckpointError for an unreadable note.
    """
    try:
        noted = json.loads((folder / _FILE).read_text(encoding="utf-8"))["weights"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{folder / _FILE} cannot be read: {error}") from error
    if PretrainedFiles.of(model).digest() != noted:
        raise ConfigError(
            f"the weights in {model} changed since the run began, and its checkpoints fit only those that "
            "it began with; restore them, or start over with --force"
        )
