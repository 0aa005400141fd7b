"""The timing that every answer carries: how long it waited, how long it was on its way, how long it ran."""

from __future__ import annotations


def timing_ms(total_s: float, *, run_ms: float = 0.0, queue_ms: float = 0.0) -> dict[str, float]:
    """Split an operation's time into the wait for a box, the run in it, and all that is left."""
    # The box has a clock of its own, so the run may appear longer than the whole.
    route_ms = max(0.0, total_s * 1000 - queue_ms - run_ms)
    return {"queue_ms": round(queue_ms, 3), "route_ms": round(route_ms, 3), "run_ms": run_ms}
