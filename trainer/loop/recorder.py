"""Keeps what steps lead to: metrics by way of the experience actor, checkpoints by way of Ray Train."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import ray.train

from trainer.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .export import Exporter
    from .plan import Plan
    from .remote import RemoteExperience

__all__ = ["Position", "RunRecorder", "Saver"]

_POSITION = "position.json"


class Saver(Protocol):
    """What can be written into a folder and read again, each rank its part."""

    def save(self, folder: Path) -> None:
        """Write this rank's part."""
        ...


@dataclass(frozen=True, slots=True)
class Position:
    """Where a run was when it was checkpointed."""

    step: int
    """Steps that were done."""
    stage: int
    """Stage of the last of them, whose optimizer was saved."""

    @classmethod
    def read(cls, folder: Path) -> Position:
        """The position in a checkpoint. Raises CheckpointError."""
        try:
            return cls(**json.loads((folder / _POSITION).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"the checkpoint in {folder} has no position: {error}") from error

    def write(self, folder: Path) -> None:
        """Write it into a checkpoint's folder."""
        (folder / _POSITION).write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Of one rank; rank 0 speaks for all."""

    experience: RemoteExperience
    saver: Saver
    plan: Plan
    rank: int
    exporter: Exporter

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        if self.rank == 0:
            self.experience.record(step, metrics)

    def checkpoint(self, step: int, stage: int) -> None:
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
            folder = Path(name)
            self.saver.save(folder)
            if self.rank == 0:
                Position(step, stage).write(folder)
            ray.train.report(
                {"step": step},
                checkpoint=ray.train.Checkpoint.from_directory(folder),
                checkpoint_dir_name=f"step-{step:07d}",
            )
        if self.rank == 0:
            self.experience.committed(self.plan.stages[stage].local(step))

    def export(self, step: int) -> None:
        self.exporter.during(step)
