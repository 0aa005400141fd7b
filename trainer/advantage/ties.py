"""Rewards that differ by rounding alone are equal.

A reward is a sum of float32 parts over turns, so that two episodes with the same reward in different numbers
of turns differ in its last digits. An algorithm that divides by a deviation, and an optimizer whose moments
are still empty, would take that for a signal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


_RESOLUTION = 1e-6
"""Of the greatest magnitude, or of 1: some ten times the rounding of float32."""


def tied(values: Array) -> bool:
    """Return whether values are equal but for rounding."""
    return not len(values) or float(np.ptp(values)) <= _rounding(values)


def compared(values_K: Array, baselines_K: Array) -> Array:
    """Return values minus their baselines; 0 where the difference is rounding."""
    found_K = values_K - baselines_K
    found_K[np.abs(found_K) <= _rounding(values_K)] = 0.0
    return found_K


def _rounding(values: Array) -> float:
    return _RESOLUTION * max(1.0, float(np.abs(values).max(initial=0.0)))
