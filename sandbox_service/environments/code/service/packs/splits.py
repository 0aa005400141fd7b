"""Splits of the bundled pack: by difficulty, and a seeded division into train and test."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .task import CodeTask


_SEED = 20_260_101
_TEST_SHARE = 4


def own_splits(tasks: Iterable[CodeTask]) -> dict[str, tuple[str, ...]]:
    """Return ids by split. A quarter of each category and difficulty, rounded up, is the test split."""
    splits: dict[str, list[str]] = {"train": [], "test": [], "easy": [], "medium": [], "hard": []}
    strata: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        category, difficulty = str(task.category), str(task.difficulty)
        splits[difficulty].append(task.id)
        strata.setdefault((category, difficulty), []).append(task.id)
    for (category, difficulty), ids in sorted(strata.items()):
        shuffled = sorted(ids)
        random.Random(f"{_SEED} {category} {difficulty}").shuffle(shuffled)
        held_out = -(-len(shuffled) // _TEST_SHARE)
        splits["test"] += sorted(shuffled[:held_out])
        splits["train"] += sorted(shuffled[held_out:])
    return {name: tuple(ids) for name, ids in splits.items()}
