"""Random choices of the task generators, the same on every machine and in every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Draws from ``random()`` alone: its sequence is the one that Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        """Return a whole number from 0 up to, and not including, ``bound``."""
        return int(self._random.random() * bound)

    def between(self, least: int, most: int) -> int:
        """Return a whole number from ``least`` to ``most``, both included."""
        return least + self.below(most - least + 1)

    def one_of(self, items: Sequence[T]) -> T:
        """Return one of ``items``."""
        return items[self.below(len(items))]
