"""Plots of an evaluation: success by group, pass@k, ends of episodes, and their cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .figure import PALETTE, Figure

if TYPE_CHECKING:
    from trainer.evaluate.results import EvaluationResult
    from trainer.evaluate.summary import Estimate, EvaluationFigures, EvaluationSummary, MeanEstimate

    from .figure import JsonTree


_SHARE: JsonTree = {"range": [0, 1], "title": {"text": "share of episodes"}}


def evaluation_figures(result: EvaluationResult, summary: EvaluationSummary) -> Iterator[Figure]:
    """Return the plots that the evaluation has figures for."""
    for name, groups in ({"task": {"all": summary.overall}} | summary.sections()).items():
        shown = {each or "none named": figures for each, figures in groups.items()}
        title = "Success" if name == "task" else f"Success by {name}"
        yield success_bars(title, {each: figures.success for each, figures in shown.items()})
        yield endings(f"Ends of episodes{'' if name == 'task' else f', by {name}'}", shown)
    if len(summary.overall.pass_at) > 1:
        yield pass_curve({"all": summary.overall})
    for name, unit in (("turns", "turns"), ("tokens", "sampled tokens"), ("seconds", "seconds")):
        values = [
            getattr(task.totals, name) / task.episodes
            for task in result.tasks
            if task.totals is not None and task.episodes
        ]
        if values:
            yield _histogram(f"{unit.capitalize()} of an episode, mean of each task", unit, values)


def success_bars(title: str, estimates: Mapping[str, Estimate | None]) -> Figure:
    """Plot success rates as bars with intervals."""
    found = {name: estimate for name, estimate in estimates.items() if estimate is not None}
    return Figure(title, (interval_bars(found, PALETTE[0]),), "Bars are 95% intervals.", {"yaxis": _SHARE})


def interval_bars(estimates: Mapping[str, Estimate] | Mapping[str, MeanEstimate], colour: str) -> JsonTree:
    """Return a bar for each estimate, with its interval if it has one."""
    spans = [(each.value, each.interval) for each in estimates.values()]
    error: JsonTree = {
        "type": "data",
        "symmetric": False,
        "array": [None if interval is None else interval.high - value for value, interval in spans],
        "arrayminus": [None if interval is None else value - interval.low for value, interval in spans],
    }
    return {
        "type": "bar",
        "name": "success",
        "x": list(estimates),
        "y": [each.value for each in estimates.values()],
        "error_y": error,
        "marker": {"color": colour},
    }


def endings(title: str, groups: Mapping[str, EvaluationFigures]) -> Figure:
    """Plot the shares of solved episodes and of each cause of unsolved ones."""
    causes = dict.fromkeys(cause for figures in groups.values() for cause in figures.causes)
    counts = {"solved": {name: figures.successes for name, figures in groups.items()}} | {
        cause.replace("_", " "): {name: figures.causes.get(cause, 0) for name, figures in groups.items()}
        for cause in causes
    }
    traces: tuple[JsonTree, ...] = tuple(
        {
            "type": "bar",
            "name": cause,
            "x": list(groups),
            "y": [count / max(1, groups[name].episodes) for name, count in by_group.items()],
            "marker": {"color": PALETTE[(place + 2) % len(PALETTE)]},
        }
        for place, (cause, by_group) in enumerate(counts.items())
    )
    note = "Of episodes with a score: solved, or the cause that ended them unsolved."
    return Figure(title, traces, note, {"yaxis": _SHARE, "barmode": "stack"})


def pass_curve(subjects: Mapping[str, EvaluationFigures]) -> Figure:
    """Plot pass@k over k."""
    traces: tuple[JsonTree, ...] = tuple(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": list(figures.pass_at),
            "y": [each.value for each in figures.pass_at.values()],
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [each.interval.high - each.value for each in figures.pass_at.values()],
                "arrayminus": [each.value - each.interval.low for each in figures.pass_at.values()],
                "thickness": 1,
            },
            "line": {"color": PALETTE[place % len(PALETTE)], "width": 2},
        }
        for place, (name, figures) in enumerate(subjects.items())
    )
    note = "Probability that at least one of k episodes solves the task: the unbiased estimate."
    layout: JsonTree = {
        "xaxis": {"title": {"text": "k"}},
        "yaxis": {"range": [0, 1], "title": {"text": "pass@k"}},
    }
    return Figure("pass@k", traces, note, layout)


def _histogram(title: str, unit: str, values: Sequence[float]) -> Figure:
    trace: JsonTree = {"type": "histogram", "x": list(values), "marker": {"color": PALETTE[0]}}
    layout: JsonTree = {"xaxis": {"title": {"text": unit}}, "yaxis": {"title": {"text": "tasks"}}}
    return Figure(title, (trace,), "", layout)
