"""Read the authored content of the synthetic world: people, the content of their apps, and tasks."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "data"
SCENARIO_FILES = tuple(sorted((_FOLDER / "scenarios").glob("*.toml")))


def read(path: Path) -> dict[str, Any]:
    """Return the content of one file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


WORLD = read(_FOLDER / "world.toml")
