"""The plots of a report, section by section: a table of what is drawn, and how each kind is drawn.

A plot whose metrics a run does not have is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .figure import PALETTE, Figure, line, shade
from .series import named, series, smoothed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .figure import JsonTree

__all__ = ["SECTIONS", "Plot", "draw"]


@dataclass(frozen=True, slots=True)
class Plot:
    """What to draw together."""

    title: str
    names: tuple[str, ...]
    """Metrics; one that ends in ``/`` stands for all that begin so."""
    kind: Literal["lines", "stacked", "bars"] = "lines"
    log: bool = False
    unit: str = ""
    note: str = ""


SECTIONS: Mapping[str, tuple[Plot, ...]] = {
    "Learning": (
        Plot("Success by difficulty, in training", ("success/",), unit="share"),
        Plot("Loss", ("loss/policy", "loss/value")),
        Plot("Loss of the warm start", ("loss/imitate",), note="Negative log-likelihood of a token."),
    ),
    "Episodes": (
        Plot("Turns of an episode", ("episodes/turns",)),
        Plot("Tokens of an episode", ("episodes/tokens",)),
        Plot("How episodes ended", ("stops/",), "stacked"),
        Plot(
            "Failures by class",
            ("failures/",),
            "bars",
            note="Episodes that something broke which is not the policy's doing. They are never a reward.",
        ),
        Plot(
            "Groups dropped, turns drifted",
            ("groups/dropped", "episodes/drifted"),
            note="Dropped: all rewards were the same, too few verdicts, or a broken task. Drifted: a turn's "
            "text would be other tokens than those that were sampled.",
        ),
    ),
    "Policy": (
        Plot(
            "KL of a token from the policy before the step's first update",
            ("policy/kl",),
            unit="nats",
            note="0 with one update a step.",
        ),
        Plot("KL of a token to the reference", ("reference/kl", "loss/kl"), unit="nats"),
        Plot("KL of a sequence to the reference", ("reference/kl_sequence",), unit="nats"),
        Plot("Share of the returns that the critic explains", ("value/explained",), unit="share"),
        Plot("Entropy", ("policy/entropy",), unit="nats"),
        Plot("Share of clipped tokens", ("policy/clip_share",), unit="share"),
        Plot("Norm of the gradient", ("policy/grad_norm",)),
        Plot("Learning rate", ("policy/lr",)),
    ),
    "Engine and learner": (
        Plot(
            "Mismatch between engine and learner",
            ("mismatch/kl", "mismatch/max", "mismatch/share"),
            log=True,
            note="Of the same tokens. Small: rounding. A jump: an engine with old weights.",
        ),
        Plot("Log-probabilities after a publication: greatest difference", ("sync/difference",), log=True),
        Plot(
            "Staleness",
            ("staleness/mean", "staleness/max"),
            unit="updates",
            note="Updates that the weights had gone on when a token was trained on.",
        ),
    ),
    "Time": (
        Plot(
            "Seconds of a step",
            tuple(f"time/{name}" for name in ("take", "annotate", "update", "publish")),
            "stacked",
        ),
        Plot("Seconds of an episode", ("time/sampling", "time/sandbox"), "stacked"),
        Plot("Seconds to publish weights", ("sync/seconds",)),
        Plot("Tokens trained on, a step", ("tokens/trained",)),
        Plot("Idle share of the engines", ("engine/idle",), unit="share"),
    ),
}


def draw(plot: Plot, metrics: Mapping[int, Mapping[str, float]]) -> Figure | None:
    """The plot of a run; None when it has nothing of it."""
    names = [
        found for name in plot.names for found in (named(metrics, name) if name.endswith("/") else (name,))
    ]
    traces = tuple(
        trace
        for place, name in enumerate(names)
        for trace in _traces(plot, name, PALETTE[place % len(PALETTE)], metrics)
    )
    if not traces:
        return None
    axis: JsonTree = {"type": "log"} if plot.log else {"rangemode": "tozero"}
    layout: JsonTree = {"yaxis": {**axis, "title": {"text": plot.unit}}}
    if plot.kind == "bars":
        layout["barmode"] = "stack"
    return Figure(plot.title, traces, plot.note, layout)


def _traces(
    plot: Plot, name: str, colour: str, metrics: Mapping[int, Mapping[str, float]]
) -> Iterator[JsonTree]:
    found = series(metrics, name)
    if found is None:
        return
    label = name.partition("/")[2] or name
    if plot.kind == "bars":
        yield {
            "type": "bar",
            "name": label,
            "x": list(found.steps),
            "y": list(found.values),
            "marker": {"color": colour},
        }
    elif plot.kind == "stacked":
        more = {"stackgroup": "all", "fillcolor": shade(colour, 0.5), "line": {"color": colour, "width": 1}}
        yield line(label, found.steps, found.values, colour, **more)
    else:
        smooth = smoothed(found)
        if smooth is not None:
            faint: JsonTree = {
                "line": {"color": shade(colour, 0.3), "width": 1},
                "showlegend": False,
                "hoverinfo": "skip",
            }
            yield line(label, found.steps, found.values, colour, **faint)
            found = smooth
        yield line(label, found.steps, found.values, colour)
