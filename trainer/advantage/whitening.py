"""Normalise several arrays to zero mean and unit deviation over all their entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .ties import tied

if TYPE_CHECKING:
    from .chains import Array


VARIANCE_FLOOR = 1e-8


def whiten(arrays_N: Sequence[Array]) -> list[Array]:
    """Return the arrays minus the common mean, over the population deviation; zeros if it is rounding."""
    joined = np.concatenate(arrays_N) if arrays_N else np.zeros(0)
    if tied(joined):
        return [np.zeros_like(array) for array in arrays_N]
    mean, deviation = joined.mean(), np.sqrt(joined.var() + VARIANCE_FLOOR)
    return [(array - mean) / deviation for array in arrays_N]
