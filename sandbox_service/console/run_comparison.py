"""Training runs over each other: one metric in one plot, the final values, and the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sandbox_settings import flat_settings, shown_value, text_of

from .curves import SHOWN, Overlay, overlay_of, shown_metrics

if TYPE_CHECKING:
    from .curves import Metrics
    from .run_folder import TrainingRun


COMPARE_RUNS = "/console/compare_runs"
MOST_RUNS = 8
"""Runs of a page: as many as have dashes and a colour of their own."""
_MOST_SETTINGS = 200
"""Settings that a page lists."""
_FREE = frozenset({"name", "root"})
"""Settings that differ between any two runs."""
_ABSENT = "not set"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The last value of a metric in each run."""

    name: str
    url: str
    """The page with the metric's curves."""
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting in each run."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All that the page shows."""

    runs: tuple[str, ...]
    last_steps: tuple[int | None, ...]
    overlay: Overlay
    metrics: tuple[str, ...]
    """Names that can be chosen, those with a curve on a run's page."""
    finals: tuple[MetricRow, ...]
    with_settings: tuple[str, ...]
    """Runs whose settings could be read, in the order of the columns."""
    without_settings: tuple[str, ...]
    settings: tuple[SettingRow, ...]
    """Settings that are not the same in all runs."""
    unlisted: int
    """Further settings that differ."""


def compare_runs(runs: Sequence[TrainingRun], metric: str) -> RunComparison:
    """Return the page of runs; without a metric, the first that one of them has is shown. Blocks."""
    metrics = {run.name: run.read_metrics() for run in runs}
    names = _names(metrics)
    read = {run.name: settings for run in runs if (settings := run.settings())}
    differing = differing_settings(read)
    return RunComparison(
        runs=tuple(metrics),
        last_steps=tuple(max(each, default=None) for each in metrics.values()),
        overlay=overlay_of(metric or next(iter(names), SHOWN[0]), metrics),
        metrics=names,
        finals=tuple(_final(name, metrics) for name in names),
        with_settings=tuple(read),
        without_settings=tuple(name for name in metrics if name not in read),
        settings=differing[:_MOST_SETTINGS],
        unlisted=max(0, len(differing) - _MOST_SETTINGS),
    )


def differing_settings(runs: Mapping[str, Mapping[str, object]]) -> tuple[SettingRow, ...]:
    """Return the settings that are not the same in all runs, without what may be a secret."""
    flat = {run: dict(flat_settings(settings)) for run, settings in runs.items()}
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    return tuple(
        SettingRow(
            name, tuple(shown_value(name, each[name]) if name in each else _ABSENT for each in flat.values())
        )
        for name in names
        if name not in _FREE and len({_written(name, each) for each in flat.values()}) > 1
    )


def _names(metrics: Mapping[str, Metrics]) -> tuple[str, ...]:
    """Return the metrics that any of the runs shows, in the order of a run's page."""
    found = dict.fromkeys(name for each in metrics.values() for name in shown_metrics(each))
    return (*(name for name in SHOWN if name in found), *sorted(name for name in found if name not in SHOWN))


def _written(name: str, settings: Mapping[str, object]) -> str | None:
    return text_of(settings[name]) if name in settings else None


def _final(metric: str, metrics: Mapping[str, Metrics]) -> MetricRow:
    """Return a row of the table of final values."""
    query = urlencode([*(("run", run) for run in metrics), ("metric", metric)])
    recorded = [[values[metric] for values in each.values() if metric in values] for each in metrics.values()]
    return MetricRow(
        metric, f"{COMPARE_RUNS}?{query}", tuple(values[-1] if values else None for values in recorded)
    )
