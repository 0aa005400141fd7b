"""Cache groups with their rewards and samples: those that wait for a batch stay in memory.

Samples are made in a thread as soon as a group has ended, so that the batch is ready with its last group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from .assemble import ScoredGroup

if TYPE_CHECKING:
    from trainer.types import Sample, TrajectoryGroup

    from .assemble import Score
    from .journal import BatchJournal
    from .writer import JournalWriter


class GroupCache:
    """Scores groups, and keeps those that a step may need soon; others are read from the journal."""

    def __init__(self, writer: JournalWriter, score: Score, costs: Sequence[str] = ()) -> None:
        """``costs`` are those that the samples carry."""
        self._costs = tuple(costs)
        self._writer = writer
        self._score = score
        self._groups: dict[int, ScoredGroup] = {}
        self._samples: dict[int, Future[tuple[Sample, ...]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="samples")

    def scored(self, group: TrajectoryGroup) -> ScoredGroup:
        """Return a group with its rewards."""
        return ScoredGroup.of(group, self._score)

    def put(self, group: ScoredGroup) -> None:
        """Keep a group, and begin to make its samples."""
        index = group.spec.index
        if index not in self._groups:
            self._groups[index] = group
            self._samples[index] = self._thread.submit(group.samples, self._costs)

    async def load_groups(self, indices: Sequence[int]) -> list[ScoredGroup]:
        """Return groups in the order asked for; those that are not cached are read from the journal, once.

        Raises CheckpointError for one that was removed from the journal.
        """
        for index in indices:
            if index not in self._groups:
                self.put(await self._read(index))
        return [self._groups[index] for index in indices]

    async def samples(self, indices: Sequence[int]) -> tuple[Sample, ...]:
        """Return the samples of cached groups."""
        futures = [self._samples[index] for index in indices]
        # Shielded: a caller that is cancelled would cancel what others find in the cache.
        made = [await asyncio.shield(asyncio.wrap_future(future)) for future in futures]
        return tuple(sample for each in made for sample in each)

    def keep_only(self, indices: Collection[int]) -> None:
        """Drop all groups but these."""
        for index in [index for index in self._groups if index not in indices]:
            del self._groups[index], self._samples[index]

    def close(self) -> None:
        """Make no more samples."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(self, index: int) -> ScoredGroup:
        def read(journal: BatchJournal) -> ScoredGroup:
            return self.scored(journal.group(index))

        return await self._writer.call_journal(read)
