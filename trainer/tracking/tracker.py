"""Who is told of a run's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Tracker"]


class Tracker(Protocol):
    """A place for metrics. A run that is resumed opens the same place again and goes on in it."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a step. It may be told in parts, and again after a resume: later values win."""
        ...

    def close(self) -> None:
        """Everything is kept; nothing is told any more. May be called twice."""
        ...
