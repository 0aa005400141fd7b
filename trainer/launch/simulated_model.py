"""Latency model of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """Messages of the simulated model, and their latency."""

    demonstrations: Path | None = None
    """Messages by task; ``message`` for other tasks and after the last message."""
    message: str = "I do not know."
    turn_s: float = 0.5
    """Median seconds of a turn."""
    spread: float = 1.0
    """Standard deviation of the logarithm of a turn's seconds."""
    update_s: float = 1.0
    """Of a step's update and weight sync."""
