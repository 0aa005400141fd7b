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
    "evaluation/success",
    "evaluation/score",
    "reward/std",
    "reward/with_failures",
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
    "loss/process_reward_model",
    "mismatch/kl",
    "staleness/mean",
    "staleness/max",
    "groups/dropped",
    "time/take",
    "time/update",
    "throughput/tokens_per_s",
)
"""Metrics with a curve, in their order; further ones of these kinds follow."""
_FURTHER = ("evaluation/", "failures/", "stops/", "success/")
_LABEL_WIDTH = 4.0
_LABEL_HEIGHT = 5.0
"""Room of a label at the end of a curve, in percent of the plot."""

Metrics = Mapping[int, Mapping[str, float]]
"""A run's metrics by step."""
Series = list[tuple[int, float]]
"""The values of one metric with their steps, in order."""


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


@dataclass(frozen=True, slots=True)
class OverlaidCurve:
    """One run's curve of a metric, on the axes of all runs that are compared."""

    number: int
    """Place of the run among those that are compared, from 1; its legend, dashes and colour have it."""
    run: str
    curve: Curve
    label_x: float
    """Place of the number beside the last point, in percent of the plot's width."""
    label_y: float
    """Likewise of its height, apart from the other numbers."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """One metric of several runs on common axes."""

    metric: str
    curves: tuple[OverlaidCurve, ...]
    without: tuple[str, ...]
    """Runs that do not have the metric."""
    least: float
    most: float
    first_step: int
    last_step: int

    @property
    def middle(self) -> float:
        """The value half-way up the axis."""
        return self.least / 2 + self.most / 2


@dataclass(frozen=True, slots=True)
class _Axes:
    """The ranges that a plot shows."""

    least: float
    most: float
    first_step: int
    last_step: int

    def place(self, step: float, value: float) -> tuple[float, float]:
        """Return a point in a box of WIDTH by HEIGHT."""
        height, span = self.most - self.least, self.last_step - self.first_step
        x = WIDTH * (step - self.first_step) / span if span else WIDTH / 2
        return x, HEIGHT * (self.most - value) / height if height else HEIGHT / 2


def curves_of(metrics: Metrics) -> tuple[Curve, ...]:
    """Return the curves of the metrics that a run has."""
    return tuple(
        _curve(name, series, _axes_of([series]))
        for name in shown_metrics(metrics)
        if (series := _series(name, metrics))
    )


def shown_metrics(metrics: Metrics) -> tuple[str, ...]:
    """Return the names of a run's metrics that have a curve, in their order."""
    names = dict.fromkeys(name for values in metrics.values() for name in values)
    further = [name for name in names if name.startswith(_FURTHER) and name not in SHOWN]
    return (*(name for name in SHOWN if name in names), *sorted(further))


def overlay_of(metric: str, runs: Mapping[str, Metrics]) -> Overlay:
    """Return the curves of a metric over each other, by run."""
    series = {run: _series(metric, metrics) for run, metrics in runs.items()}
    drawn = [each for each in series.values() if each]
    axes = _axes_of(drawn) if drawn else _Axes(0.0, 0.0, 0, 0)
    numbered = [(number, run, series[run]) for number, run in enumerate(runs, start=1) if series[run]]
    ends = [axes.place(*each[-1]) for _, _, each in numbered]
    heights = _label_heights(ends)
    curves = tuple(
        OverlaidCurve(number, run, _curve(metric, each, axes), round(100 * x / WIDTH, 1), height)
        for (number, run, each), (x, _), height in zip(numbered, ends, heights, strict=True)
    )
    without = tuple(run for run, each in series.items() if not each)
    return Overlay(metric, curves, without, axes.least, axes.most, axes.first_step, axes.last_step)


def _series(name: str, metrics: Metrics) -> Series:
    return [(step, values[name]) for step, values in metrics.items() if name in values]


def _axes_of(drawn: Sequence[Series]) -> _Axes:
    values = [value for series in drawn for _, value in series]
    steps = [step for series in drawn for step, _ in series]
    return _Axes(min(values), max(values), min(steps), max(steps))


def _curve(name: str, series: Series, axes: _Axes) -> Curve:
    values = [value for _, value in series]
    places = [axes.place(step, value) for step, value in _thinned(series)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return Curve(name, points, min(values), max(values), values[-1], series[0][0], series[-1][0])


def _label_heights(ends: Sequence[tuple[float, float]]) -> list[float]:
    """Return where labels at these points stand, in percent of the height, so that none covers another."""
    heights = [0.0] * len(ends)
    beside: list[int] = []
    for place in sorted(range(len(ends)), key=lambda each: ends[each][0]):
        if beside and 100 * (ends[place][0] - ends[beside[-1]][0]) / WIDTH > _LABEL_WIDTH:
            beside = []
        beside.append(place)
        # Labels that stand beside no others stay at their points; each further one moves its neighbours only.
        room = 100.0 - (len(beside) - 1) * _LABEL_HEIGHT
        free = 0.0
        for each in sorted(beside, key=lambda one: ends[one][1]):
            heights[each] = round(min(max(100 * ends[each][1] / HEIGHT, free), room), 1)
            free, room = heights[each] + _LABEL_HEIGHT, room + _LABEL_HEIGHT
    return heights


def _thinned(points: Series) -> list[tuple[float, float]]:
    """Return means of neighbours where there are more points than a screen shows."""
    if len(points) <= _POINTS:
        return [(float(step), value) for step, value in points]
    edges = [round(number * len(points) / _POINTS) for number in range(_POINTS + 1)]
    parts = [points[start:end] for start, end in pairwise(edges)]
    return [
        (sum(step for step, _ in part) / len(part), sum(value for _, value in part) / len(part))
        for part in parts
    ]
