"""Checkpoints of a run: where they lie, which is the newest, and the position of the run in each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import ray.train
import ray.train.collective
from ray.train import CheckpointUploadMode

from trainer.durable_files import write_durably
from trainer.errors import CheckpointError

from .progress_note import check_resumable, read_progress

if TYPE_CHECKING:
    from .plan import StagePlan


LONGEST_WAIT_S = 1800.0
"""Limit of a rank's wait for the others, and for the file system to take a checkpoint."""

_POSITION = "position.json"


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a run at a checkpoint."""

    step: int
    """Number of completed steps."""
    stage: int
    """Stage of the last completed step, whose optimizer was saved."""

    @classmethod
    def from_checkpoint(cls, folder: Path) -> Position:
        """Read the position from a checkpoint. Raises CheckpointError."""
        try:
            return cls(**json.loads((folder / _POSITION).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"the checkpoint in {folder} has no readable position: {error}") from error

    def write(self, folder: Path) -> None:
        """Write the position to a checkpoint's folder, after everything else."""
        write_durably(folder / _POSITION, json.dumps(asdict(self)))


class CheckpointRegistry(Protocol):
    """The checkpoints that outlive a worker group. Its methods are called by all ranks."""

    def newest(self) -> Path | None:
        """Return the folder of the newest registered checkpoint; None without any."""
        ...

    def folder_of(self, step: int) -> Path:
        """Return the folder of the checkpoint after so many steps, whether it exists or not."""
        ...

    def wait_for_ranks(self) -> None:
        """Return when all ranks have called it; an error when one has not for ``LONGEST_WAIT_S``."""
        ...

    def register(self, step: int, folder: Path) -> None:
        """Register a complete checkpoint, some time after this returns."""
        ...


class RayCheckpoints:
    """The registry of Ray Train, in one of its workers."""

    def newest(self) -> Path | None:
        found = ray.train.get_checkpoint()
        return None if found is None else Path(found.path)

    def folder_of(self, step: int) -> Path:
        storage = ray.train.get_context().get_storage()
        return Path(storage.build_checkpoint_path_from_name(f"step-{step:07d}"))

    def wait_for_ranks(self) -> None:
        ray.train.collective.barrier()

    def register(self, step: int, folder: Path) -> None:
        ray.train.report(
            {"step": step},
            checkpoint=ray.train.Checkpoint.from_directory(folder),
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )


class Restorable(Protocol):
    """State that goes on from a checkpoint."""

    def load_checkpoint(self, folder: Path) -> None:
        """Go on from a checkpoint of the stage. Raises CheckpointError."""
        ...


def restored(learner: Restorable, folder: Path) -> Position:
    """Have a learner go on from a checkpoint, and return its position; collective. Raises CheckpointError."""
    position = Position.from_checkpoint(folder)
    learner.load_checkpoint(folder)
    return position


def restore_newest(
    learner: Restorable, plan: StagePlan, run: Path, registry: CheckpointRegistry
) -> Position | None:
    """Have a learner go on from the newest checkpoint of the run in a folder; None for a new run; collective.

    Raises CheckpointError where there was a checkpoint, and is none.
    """
    newest = registry.newest()
    if newest is None:
        newest = _unregistered(run, registry)
    if newest is None:
        check_resumable(run, plan)
        return None
    return restored(learner, newest)


def _unregistered(run: Path, registry: CheckpointRegistry) -> Path | None:
    """Register the noted checkpoint again if it is complete, and return it.

    A worker group that dies takes along what it has reported and Ray Train has not registered yet: of a young
    run, the only checkpoint.
    """
    progress = read_progress(run)
    if progress is None:
        return None
    step, _ = progress
    folder = registry.folder_of(step)
    if not (folder / _POSITION).is_file():
        return None
    registry.register(step, folder)
    return folder
