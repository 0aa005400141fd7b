"""Sum the wall-clock time of a run by phase of the loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from trainer.tracking.step_phases import EVALUATION, STEP_PHASES


def phase_seconds(metrics: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds of all steps by phase, for phases that occurred."""
    seconds: dict[str, float] = defaultdict(float)
    for values in metrics.values():
        for name in (*STEP_PHASES, EVALUATION):
            if f"time/{name}" in values:
                seconds[name] += values[f"time/{name}"]
    return dict(seconds)
