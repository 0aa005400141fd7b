"""Write the files beside the journal: which trajectories each step consumed, and their text.

A file holds each step once, whatever was killed in between: the journal knows how long the file was after the
last step, what is beyond that is cut off, and steps that are missing are written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from trainer.types import TrajectoryGroup

from .payloads import group_to_json

if TYPE_CHECKING:
    from .assemble import ScoredGroup
    from .events import Assembled
    from .journal import BatchJournal


CONSUMED = "consumed.jsonl"
TRAJECTORIES = "trajectories.jsonl"

Kept: TypeAlias = Literal["all", "scored", "none"]
"""The choice of episodes that are written out in full."""


class Exports:
    """``consumed.jsonl`` and ``trajectories.jsonl`` in a run's folder."""

    def __init__(self, folder: Path, journal: BatchJournal, kept: Kept) -> None:
        self._folder = folder
        self._journal = journal
        self._kept = kept

    def recover(self, batches: Mapping[int, Assembled], read: Callable[[int], ScoredGroup]) -> None:
        """Bring the files to where the journal is; ``read`` gives a group by its index."""
        exported = self._journal.exported()
        for name in (CONSUMED, TRAJECTORIES):
            _cut(self._folder / name, exported.get(name, (-1, 0))[1])
        last = exported.get(CONSUMED, (-1, 0))[0]
        for step in range(last + 1, len(batches)):
            batch = batches[step]
            self.write(batch, [read(index) for index in (*batch.fresh, *batch.replayed)])

    def write(self, batch: Assembled, groups: Sequence[ScoredGroup]) -> None:
        """Add a step, on disk when the call returns; ``groups`` has the fresh ones first."""
        fresh, replayed = groups[: len(batch.fresh)], groups[len(batch.fresh) :]
        consumed = {"step": batch.step, "trajectories": _ids(fresh), "replayed": _ids(replayed)}
        texts = [] if self._kept == "none" else [group_to_json(self._shown(group)) for group in fresh]
        # Files first, their sizes in the journal after them: what a kill leaves in between is beyond the
        # journaled size, so that ``recover`` cuts it off and writes the step again.
        sizes = {
            CONSUMED: _append(self._folder / CONSUMED, [json.dumps(consumed).encode()]),
            TRAJECTORIES: _append(self._folder / TRAJECTORIES, texts),
        }
        self._journal.mark_exported(batch.step, sizes)

    def _shown(self, group: ScoredGroup) -> TrajectoryGroup:
        return TrajectoryGroup(group.spec, group.judged if self._kept == "scored" else group.trajectories)


def _ids(groups: Sequence[ScoredGroup]) -> list[str]:
    return [trajectory.id for group in groups for trajectory in group.judged]


def _cut(file: Path, size: int) -> None:
    if file.exists() and file.stat().st_size > size:
        os.truncate(file, size)


def _append(file: Path, lines: Sequence[bytes]) -> int:
    """Write lines; the file's size afterwards."""
    with file.open("ab") as out:
        for line in lines:
            out.write(line + b"\n")
        out.flush()
        os.fsync(out.fileno())
        return out.tell()
