"""A plot in plotly's format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

JsonTree: TypeAlias = dict[str, object]

PALETTE = ("#3b6fb6", "#d9822b", "#3a9a5c", "#b8475a", "#7d5fb2", "#8a6d4f", "#2f9aa0", "#a0a832", "#c46fa8")
"""Colours in the order in which lines are drawn."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Traces and the layout settings that differ from the default."""

    title: str
    traces: tuple[JsonTree, ...]
    note: str = ""
    """Explanation for readers."""
    layout: JsonTree = field(default_factory=dict)


STEP = "step of reinforcement learning"
OFFLINE_STEP = "step on given data"
"""Steps of the warm start and of stages on recorded data, one after another."""


def steps_axis(over: str = STEP) -> JsonTree:
    """Return the horizontal axis, from the first step on."""
    return {"title": {"text": over}, "rangemode": "tozero"}


def line(
    name: str, steps: tuple[int, ...], values: tuple[float, ...], colour: str, **more: object
) -> JsonTree:
    """Return a line over steps; a lone point is drawn as a marker."""
    return {
        "type": "scatter",
        "mode": "lines" if len(steps) > 1 else "markers",
        "name": name,
        "x": list(steps),
        "y": list(values),
        "line": {"color": colour, "width": 2},
        **more,
    }


def shade(colour: str, share: float) -> str:
    """Return a translucent colour."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"
