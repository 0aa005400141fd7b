"""The model of a simulation, told in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PretendedModel"]


@dataclass(frozen=True, slots=True)
class PretendedModel:
    """What is said, and how long it takes."""

    demonstrations: Path | None = None
    """What to say, by task; ``line`` for other tasks, and when they have no more to say."""
    line: str = "I do not know."
    turn_s: float = 0.5
    """Median of a turn."""
    spread: float = 1.0
    """Of the logarithm of a turn's seconds."""
    update_s: float = 1.0
    """Of a step's update and weight sync."""
