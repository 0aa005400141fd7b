"""Interface of destinations for a run's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TrackerSetup:
    """The argument of a tracker of another package."""

    name: str
    """The run's name."""
    folder: Path
    """The run's folder."""
    settings: Mapping[str, object]
    """The run's settings by dotted keys, without what may be a secret."""


class Tracker(Protocol):
    """A destination for metrics. A resumed run opens the same one again and continues it.

    A run's optional trackers are called in a thread of their own, not the one that opened them.
    """

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics of a step. A step may be logged in parts, and again on resume: later values win."""
        ...

    def close(self) -> None:
        """Flush and close. May be called twice."""
        ...
