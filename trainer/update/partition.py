"""Divide rows over updates and ranks: a pure function of the lengths, the run's seed and the step.

Every rank computes the whole division from the whole batch, so that ranks agree without communication, and a
step repeated with another number of workers has the same minibatches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from trainer.types import Batch

    from .mesh import Mesh


Layout = Literal["padded", "packed"]


def minibatches(rows: int, count: int, seed: tuple[int, ...]) -> list[list[int]]:
    """Shuffle rows ``0..rows-1`` and split them into parts of nearly equal size; empty parts are left out.

    Args:
        rows: number of rows.
        count: number of parts.
        seed: run seed, step, epoch.
    """
    order = np.random.default_rng(seed).permutation(rows)
    return [part.tolist() for part in np.array_split(order, count) if len(part)]


def shares(lengths: Sequence[int], rows: Sequence[int], world: int) -> list[list[int]]:
    """Assign rows to ranks, the longest first, each to the rank with the fewest tokens."""
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
    """Group rows within ``budget`` tokens, padding included; a row that is longer gets a micro-batch of its
    own.

    Padded rows are sorted by length to reduce padding; packed ones are placed first-fit.
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
    """Return one rank's micro-batches, padded with empty ones to the same number on all ranks.

    Passes are collective, so all ranks need the same number. Ranks that share rows get the same
    micro-batches, with ``budget`` tokens for each of them.
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
    """The samples of a batch that one rank passes through the model."""

    mesh: Mesh
    budget: int
    """Tokens of a pass on each rank."""
    layout: Layout

    def to_score(self, batch: Batch) -> frozenset[int]:
        """Return indices of the samples that the rank scores before learning."""
        asked = [place for place, sample in enumerate(batch.samples) if sample.mask_T.any()]
        return self._of([len(sample) for sample in batch.samples], asked)

    def to_learn(self, batch: Batch, parts: Iterable[Sequence[int]]) -> frozenset[int]:
        """Return indices of the samples that the rank learns from, in minibatches of the samples with a
        weight.
        """
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
