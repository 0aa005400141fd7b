"""The bundled pack: tasks written for this project, one TOML file for each category and difficulty."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from .jsonl import invalid, validated

if TYPE_CHECKING:
    from .task import CodeTask


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
