"""The bundled pack: tasks written for this project, a TOML file for each category and difficulty; splits."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .jsonl import invalid, validated

if TYPE_CHECKING:
    from .task import CodeTask


_SPLIT_SEED = 20_260_101
_TEST_SHARE = 4
"""One of so many tasks is a test task."""
_FOLDER = Path(__file__).parents[2] / "data" / "tasks"


def load_own() -> tuple[CodeTask, ...]:
    """Return all bundled tasks; a file's name gives category and difficulty."""
    tasks: list[CodeTask] = []
    for path in sorted(_FOLDER.glob("*.toml")):
        category, _, difficulty = path.stem.partition("_")
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["task"]
        tasks += [
            validated({**row, "category": category, "difficulty": difficulty}, f"{path}: task {index}")
            for index, row in enumerate(rows, 1)
        ]
    if len({task.id for task in tasks}) != len(tasks):
        raise invalid(str(_FOLDER), "an id occurs twice")
    return tuple(tasks)


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
        random.Random(f"{_SPLIT_SEED} {category} {difficulty}").shuffle(shuffled)
        held_out = -(-len(shuffled) // _TEST_SHARE)
        splits["test"] += sorted(shuffled[:held_out])
        splits["train"] += sorted(shuffled[held_out:])
    return {name: tuple(ids) for name, ids in splits.items()}
