"""Who trains on which rows and when: a pure function of the lengths, the run's seed and the step.

Every rank knows the whole batch and computes the whole division, so that ranks agree without a word, and a
step that is repeated by another number of workers has the same minibatches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainer.types import Batch

    from .mesh import Mesh

__all__ = ["Layout", "RankShare", "micro_batches", "minibatches", "rank_micro_batches", "shares"]

Layout = Literal["padded", "packed"]


def minibatches(rows: int, count: int, seed: tuple[int, ...]) -> list[list[int]]:
    """Rows ``0..rows-1`` in random order, cut into parts of nearly one size; empty ones are left out.

    Args:
        rows: how many rows.
        count: how many parts.
        seed: run seed, step, epoch.
    """
    order = np.random.default_rng(seed).permutation(rows)
    return [part.tolist() for part in np.array_split(order, count) if len(part)]


def shares(lengths: Sequence[int], rows: Sequence[int], world: int) -> list[list[int]]:
    """Deal rows out to ranks, the longest first and always to the rank with the fewest tokens."""
    dealt: list[list[int]] = [[] for _ in range(world)]
    tokens = [0] * world
    for row in _longest_first(lengths, rows):
        least = min(range(world), key=lambda rank: (tokens[rank], rank))
        dealt[least].append(row)
        tokens[least] += lengths[row]
    return dealt


def micro_batches(
    lengths: Sequence[int], rows: Sequence[int], budget: int, layout: Layout
) -> list[tuple[int, ...]]:
    """Rows side by side within ``budget`` tokens, padding included; a row that is longer stands alone.

    Padded rows are sorted by length, which leaves little padding; packed ones fill the first place with room.
    """
    places: list[list[int]] = []
    room: list[int] = []
    for row in _longest_first(lengths, rows):
        if layout == "padded":
            place = len(places) - 1
            fits = place >= 0 and (len(places[place]) + 1) * lengths[places[place][0]] <= budget
        else:
            place = next((index for index, left in enumerate(room) if left >= lengths[row]), -1)
            fits = place >= 0
        if fits:
            places[place].append(row)
            room[place] -= lengths[row]
        else:
            places.append([row])
            room.append(budget - lengths[row])
    return [tuple(place) for place in places]


def rank_micro_batches(
    lengths: Sequence[int], rows: Sequence[int], mesh: Mesh, budget: int, layout: Layout
) -> list[tuple[int, ...]]:
    """One rank's micro-batches, and empty ones so that all ranks have as many: passes are collective.

    Ranks that share rows have the same, of ``budget`` tokens for each of them.
    """
    together = budget * mesh.context
    each = [
        micro_batches(lengths, share, together, layout) for share in shares(lengths, rows, mesh.rows_world)
    ]
    most = max(len(batches) for batches in each)
    mine = each[mesh.rows_rank]
    return mine + [()] * (most - len(mine))


@dataclass(frozen=True, slots=True)
class RankShare:
    """Which samples of a batch one rank passes through the model."""

    mesh: Mesh
    budget: int
    """Tokens of a pass on each rank."""
    layout: Layout

    def to_score(self, batch: Batch) -> frozenset[int]:
        """Places of the samples that it asks the model about before learning."""
        asked = [place for place, sample in enumerate(batch.samples) if sample.mask_T.any()]
        return self._of([len(sample) for sample in batch.samples], asked)

    def to_learn(self, batch: Batch, parts: Iterable[Sequence[int]]) -> frozenset[int]:
        """Places of the samples that it learns from, of minibatches of the samples that are learned from."""
        trained = [
            place for place, sample in enumerate(batch.samples) if sample.weight > 0 and sample.mask_T.any()
        ]
        lengths = [len(batch.samples[place]) for place in trained]
        mine = frozenset(row for part in parts for row in self._of(lengths, part))
        return frozenset(trained[row] for row in mine)

    def _of(self, lengths: Sequence[int], rows: Sequence[int]) -> frozenset[int]:
        passes = rank_micro_batches(lengths, rows, self.mesh, self.budget, self.layout)
        return frozenset(row for each in passes for row in each)


def _longest_first(lengths: Sequence[int], rows: Sequence[int]) -> list[int]:
    return sorted(rows, key=lambda row: (-lengths[row], row))
