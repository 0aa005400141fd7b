"""Batches of demonstrations, the same for the same step."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainer.errors import DataError
from trainer.types import Batch, Objective

if TYPE_CHECKING:
    from trainer.types import Sample


@dataclass(frozen=True, slots=True)
class SFTBatches:
    """Cuts passes over the demonstrations, each in an order of its own, into batches of ``size``.

    A demonstration is all samples of its trajectory. Raises DataError when there is none.
    """

    demonstrations: Sequence[Sequence[Sample]]
    size: int
    seed: int
    facts: Mapping[str, float] = field(default_factory=dict)
    """Go with every batch."""

    def __post_init__(self) -> None:
        if not self.demonstrations:
            raise DataError("there is no demonstration to imitate: none could be played, or none was solved")

    def batch(self, step: int) -> Batch:
        """The batch of a step of the warm start, from 0."""
        count = len(self.demonstrations)
        places = range(step * self.size, (step + 1) * self.size)
        orders = {number: self._order(number) for number in {place // count for place in places}}
        chosen = [self.demonstrations[orders[place // count][place % count]] for place in places]
        samples = tuple(sample for demonstration in chosen for sample in demonstration)
        facts = {**self.facts, "demonstrations/epoch": places.stop / count}
        return Batch(step, Objective.IMITATE, samples, facts)

    def _order(self, number: int) -> list[int]:
        """Places of the demonstrations in one pass."""
        order = list(range(len(self.demonstrations)))
        random.Random(f"{self.seed} imitation {number}").shuffle(order)
        return order
