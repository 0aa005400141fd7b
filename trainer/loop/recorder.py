"""Keep the results of steps: metrics through the batch actor, checkpoints through Ray Train."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainer.errors import Stalled

from .checkpoints import LONGEST_WAIT_S, Position
from .progress_note import write_progress

if TYPE_CHECKING:
    from concurrent.futures import Future

    from trainer.reward_models.note import RewardModelNote
    from trainer.types import Batch

    from .advantage_record import AdvantageRecord
    from .checkpoints import CheckpointRegistry
    from .export import Exporter
    from .plan import StagePlan
    from .remote import RemoteBatchSource


class Saver(Protocol):
    """State that can be written to a folder and restored, each rank its part."""

    def save(self, folder: Path) -> Future[object]:
        """Start writing this rank's part; the state may change at once. Done when all ranks are done."""
        ...


@dataclass(frozen=True, slots=True)
class _Writing:
    """A checkpoint in progress."""

    position: Position
    folder: Path
    done: Future[object]


@dataclass(slots=True)
class RunRecorder:
    """Recorder of one rank; rank 0 reports for all.

    A checkpoint is written in its final place while the next step runs, and is reported to Ray Train when it
    is complete. Until then, an interrupted run resumes from the checkpoint before it.
    """

    batch_source: RemoteBatchSource
    saver: Saver
    plan: StagePlan
    rank: int
    exporter: Exporter
    folder: Path
    """The run's folder."""
    registry: CheckpointRegistry
    advantages: AdvantageRecord | None = None
    """The file of advantages, if this rank keeps one."""
    write_s: float = LONGEST_WAIT_S
    """Limit of the wait for a checkpoint in progress."""
    _writing: _Writing | None = field(default=None, init=False)

    def export_reward_model(self, name: str, note: RewardModelNote) -> None:
        self.exporter.write_reward_model(name, note)

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        if self.rank == 0:
            self.batch_source.record_metrics(step, metrics)

    def record_advantages(self, step: int, batch: Batch) -> None:
        if self.advantages is not None:
            self.advantages.write(step, batch.samples)

    def checkpoint(self, step: int, stage: int) -> None:
        self.settle()
        folder = self.registry.folder_of(step)
        if self.rank == 0:  # an incomplete checkpoint of an interrupted run
            shutil.rmtree(folder, ignore_errors=True)
        self.registry.wait_for_ranks()
        self._writing = _Writing(Position(step, stage), folder, self.saver.save(folder))

    def settle(self) -> None:
        writing, self._writing = self._writing, None
        if writing is None:
            return
        wait([writing.done], self.write_s)
        if not writing.done.done():
            raise Stalled(f"the checkpoint in {writing.folder} was not written within {self.write_s:g} s")
        writing.done.result()
        if self.rank == 0:
            writing.position.write(writing.folder)
        self.registry.register(writing.position.step, writing.folder)
        if self.rank == 0:
            position = writing.position
            stage = self.plan.stages[position.stage]
            write_progress(self.folder, position.step, stage.name)
            if stage.plays:
                self.batch_source.checkpoint_saved(stage.local(position.step))

    def export(self, step: int) -> None:
        self.exporter.during(step)
