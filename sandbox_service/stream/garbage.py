"""How often a process that carries frames looks for garbage in cycles.

Python's own setting suits a small program: with the libraries of this service in memory the searches take a
third of a step's CPU. Hardly anything here is in a cycle; what is waits a little longer.
"""

from __future__ import annotations

import gc

__all__ = ["collect_rarely"]

_THRESHOLDS = (20_000, 20, 10)


def collect_rarely() -> None:
    """Leave out of every later search what is there now, and search after many more new objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
