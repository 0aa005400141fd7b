"""The wall clock of a run by what the loop did with it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["phase_seconds"]

_PHASES = ("take", "annotate", "update", "publish", "evaluate")
"""One after another; other times in the metrics are means of episodes, which overlap."""


def phase_seconds(metrics: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Seconds of all steps by phase, of the phases that there were."""
    seconds: dict[str, float] = defaultdict(float)
    for values in metrics.values():
        for name in _PHASES:
            if f"time/{name}" in values:
                seconds[name] += values[f"time/{name}"]
    return dict(seconds)
