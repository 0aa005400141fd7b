"""Cache groups with their rewards and samples: those that wait for a batch stay in memory.

Samples are made in a thread as soon as a group has ended, so that the batch is ready with its last group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from .assemble import ScoredGroup

if TYPE_CHECKING:
    from trainer.types import Sample, TrajectoryGroup

    from .assemble import Score
    from .journal import Journal
    from .writer import JournalWriter


class GroupCache:
    """Scores groups, and keeps those that a step may need soon; others are read from the journal."""

    def __init__(self, writer: JournalWriter, score: Score, changed: Callable[[], None]) -> None:
        self._writer = writer
        self._score = score
        self._changed = changed
        self._groups: dict[int, ScoredGroup] = {}
        self._rows: dict[int, Future[tuple[Sample, ...]]] = {}
        self._fetching: dict[int, asyncio.Task[ScoredGroup]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rows")

    def scored(self, group: TrajectoryGroup) -> ScoredGroup:
        """A group with its rewards."""
        return ScoredGroup.of(group, self._score)

    def put(self, group: ScoredGroup) -> None:
        """Keep a group at hand, and begin to make its rows."""
        index = group.spec.index
        if index not in self._groups:
            self._groups[index] = group
            self._rows[index] = self._thread.submit(group.samples)

    def get(self, indices: Sequence[int]) -> list[ScoredGroup] | None:
        """The groups of a batch in the order asked for, or None while some are fetched.

        Raises CheckpointError for one that was removed.
        """
        missing = [index for index in indices if index not in self._groups]
        for index in missing:
            self._fetch(index)
        return None if missing else [self._groups[index] for index in indices]

    async def samples(self, indices: Sequence[int]) -> tuple[Sample, ...]:
        """The rows of groups that are at hand."""
        rows = [await asyncio.wrap_future(future) for future in [self._rows[index] for index in indices]]
        return tuple(sample for each in rows for sample in each)

    def keep_only(self, indices: Collection[int]) -> None:
        """Let go of all groups but these."""
        for index in [index for index in self._groups if index not in indices]:
            del self._groups[index], self._rows[index]

    def close(self) -> None:
        """Fetch and make nothing more."""
        for task in self._fetching.values():
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _fetch(self, index: int) -> None:
        task = self._fetching.get(index)
        if task is None:
            self._fetching[index] = task = asyncio.create_task(self._fetched(index))
            task.add_done_callback(lambda _: self._changed())
        elif task.done():
            del self._fetching[index]
            self.put(task.result())

    async def _fetched(self, index: int) -> ScoredGroup:
        def read(journal: Journal) -> ScoredGroup:
            return self.scored(journal.group(index))

        return await self._writer.call(read)
