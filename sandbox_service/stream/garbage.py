"""Reduce how often a process that carries frames runs Python's cyclic garbage collector.

Python's default thresholds suit a small program: with the libraries of this service in memory, collections
take a third of a step's CPU. Few objects here are in a cycle; those are freed a little later.
"""

from __future__ import annotations

import gc

_THRESHOLDS = (20_000, 20, 10)


def collect_rarely() -> None:
    """Exclude the objects that exist now from collections, and collect after many more new ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
