"""Journaled groups with their rewards; those of the batch that was read last are kept at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .assemble import ScoredGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.types import TrajectoryGroup

    from .assemble import Score
    from .journal import Journal

__all__ = ["Shelf"]


class Shelf:
    """Reads groups from the journal and scores them, always in the same way."""

    def __init__(self, journal: Journal, score: Score) -> None:
        self._journal = journal
        self._score = score
        self._at_hand: dict[int, ScoredGroup] = {}

    def scored(self, group: TrajectoryGroup) -> ScoredGroup:
        """A group with its rewards."""
        return ScoredGroup.of(group, self._score)

    def read(self, indices: Sequence[int]) -> list[ScoredGroup]:
        """The groups of a batch, in the order asked for. Raises CheckpointError for one that was removed."""
        self._at_hand = {
            index: self._at_hand.get(index) or self.scored(self._journal.group(index)) for index in indices
        }
        return list(self._at_hand.values())
