"""Metrics as lines to draw, thinned to the resolution of a screen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_POINTS = 1000


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over steps."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


def series(metrics: Mapping[int, Mapping[str, float]], name: str) -> Series | None:
    """Return the steps that have the metric, in order; None when none has. Long lines become means of
    neighbours.
    """
    points = [
        (step, values[name])
        for step, values in metrics.items()
        if name in values and math.isfinite(values[name])
    ]
    if not points:
        return None
    steps, values = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    if len(steps) > MOST_POINTS:
        steps, values = _thinned(steps), _thinned(values)
    return Series(tuple(round(step) for step in steps), tuple(float(f"{value:.6g}") for value in values))


def aligned(metrics: Mapping[int, Mapping[str, float]], names: Sequence[str]) -> dict[int, dict[str, float]]:
    """Return metrics that add up, over the same steps: those that have one of them. A missing one is 0."""
    rows = {
        step: {name: values[name] for name in names if math.isfinite(values.get(name, math.nan))}
        for step, values in metrics.items()
    }
    known = [name for name in names if any(name in row for row in rows.values())]
    return {step: {name: row.get(name, 0.0) for name in known} for step, row in rows.items() if row}


def named(metrics: Mapping[int, Mapping[str, float]], prefix: str) -> tuple[str, ...]:
    """Return the metrics with that prefix, in order of first appearance."""
    seen = (name for values in metrics.values() for name in values if name.startswith(prefix))
    return tuple(dict.fromkeys(seen))


def smoothed(line: Series) -> Series | None:
    """Return the mean over a window of neighbours, a twentieth of the line wide; None for short lines."""
    count = len(line.values)
    if count < 20:
        return None
    width = max(3, count // 20) | 1
    padded = np.pad(np.array(line.values), width // 2, mode="edge")
    means = np.convolve(padded, np.full(width, 1 / width), mode="valid")
    return Series(line.steps, tuple(float(f"{value:.6g}") for value in means))


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([part.mean() for part in np.array_split(values, MOST_POINTS)])
