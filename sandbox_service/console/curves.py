"""Curves of a run's metrics as points of SVG polylines, thinned to the resolution of a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH = 300
HEIGHT = 100
_POINTS = 300
SHOWN = (
    "reward/mean",
    "success/mean",
    "reward/std",
    "episodes/turns",
    "episodes/tokens",
    "policy/entropy",
    "policy/kl",
    "policy/clip_share",
    "policy/grad_norm",
    "loss/policy",
    "loss/value",
    "loss/sft",
    "loss/preferences",
    "loss/reward_model",
    "mismatch/kl",
    "staleness/mean",
    "groups/dropped",
    "time/take",
    "time/update",
    "throughput/tokens_per_s",
)
"""Metrics with a curve, in their order; those of failures and of stops follow."""
_FURTHER = ("failures/", "stops/", "success/")


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the steps."""

    name: str
    points: str
    """Points of a polyline in a box of WIDTH by HEIGHT, the greatest value on top."""
    least: float
    most: float
    last: float
    first_step: int
    last_step: int


def curves_of(metrics: Mapping[int, Mapping[str, float]]) -> tuple[Curve, ...]:
    """Return the curves of the metrics that a run has."""
    names = dict.fromkeys(name for values in metrics.values() for name in values)
    further = [name for name in names if name.startswith(_FURTHER) and name not in SHOWN]
    chosen = [name for name in SHOWN if name in names] + sorted(further)
    return tuple(_curve(name, metrics) for name in chosen)


def _curve(name: str, metrics: Mapping[int, Mapping[str, float]]) -> Curve:
    steps = [step for step, values in metrics.items() if name in values]
    values = [metrics[step][name] for step in steps]
    thin = _thinned(list(zip(steps, values, strict=True)))
    least, most = min(values), max(values)
    height, span = most - least, steps[-1] - steps[0]
    points = " ".join(
        f"{WIDTH * (step - steps[0]) / span if span else WIDTH / 2:.1f},"
        f"{HEIGHT * (most - value) / height if height else HEIGHT / 2:.1f}"
        for step, value in thin
    )
    return Curve(name, points, least, most, values[-1], steps[0], steps[-1])


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return means of neighbours where there are more points than a screen shows."""
    if len(points) <= _POINTS:
        return [(float(step), value) for step, value in points]
    edges = [round(number * len(points) / _POINTS) for number in range(_POINTS + 1)]
    parts = [points[start:end] for start, end in pairwise(edges)]
    return [
        (sum(step for step, _ in part) / len(part), sum(value for _, value in part) / len(part))
        for part in parts
    ]
