"""``report.html``: a run on one page that needs nothing but a browser, neither a server nor the network."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from plotly.offline import get_plotlyjs

from .episodes import shown_episodes
from .overview import evaluation_table, tiles
from .plots import SECTIONS, draw
from .run_data import read_run_data
from .special_plots import held_out, reward, time_spent

if TYPE_CHECKING:
    from pathlib import Path

    from .figure import Figure
    from .run_data import RunData

__all__ = ["write_report"]

_EPISODES = 400


def write_report(folder: Path, output: Path | None = None, *, episodes: int = _EPISODES) -> Path:
    """The report of a run, also of one that goes on; where it was written.

    At most about ``episodes`` episodes are in it. Raises DataError when the folder is not a run's.
    """
    run = read_run_data(folder)
    shown, groups = shown_episodes(folder / "trajectories.jsonl", run.steps_of_groups, episodes)
    sections = _figures(run)
    parts = {
        "title": escape(run.name),
        "style": _asset("style.css"),
        "tiles": tiles(run, groups),
        "evaluations": evaluation_table(run),
        "sections": _sections(sections),
        "episodes_note": escape(_episodes_note(len(shown), groups)),
        "config": escape(run.config),
        "figures": _embedded([_plain(figure) for _, figures in sections for figure in figures]),
        "episodes": _embedded(shown),
        "plotly": get_plotlyjs(),
        "script": _asset("report.js"),
    }
    pieces = _asset("page.html").split("%%")
    text = "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))
    target = output if output is not None else folder / "report.html"
    target.write_text(text, encoding="utf-8")
    return target


def _figures(run: RunData) -> list[tuple[str, list[Figure]]]:
    """The figures of each section; those that are drawn in a way of their own come first."""
    special = {
        "Learning": (reward(run.metrics), held_out(run.evaluations)),
        "Time": (time_spent(run.metrics),),
    }
    drawn = []
    for name, plots in SECTIONS.items():
        candidates = [*special.get(name, ()), *(draw(plot, run.metrics) for plot in plots)]
        figures = [figure for figure in candidates if figure is not None]
        if figures:
            drawn.append((name, figures))
    return drawn


def _sections(sections: list[tuple[str, list[Figure]]]) -> str:
    """A heading a section, and an empty place a figure, which the script fills when it comes into view."""
    text, place = "", 0
    for name, figures in sections:
        text += f'<h2>{escape(name)}</h2><div class="plots">'
        for figure in figures:
            note = f"<p>{escape(figure.note)}</p>" if figure.note else ""
            text += f"<figure><figcaption>{escape(figure.title)}</figcaption>"
            text += f'<div class="plot" data-figure="{place}"></div>{note}</figure>'
            place += 1
        text += "</div>"
    return text


def _plain(figure: Figure) -> dict[str, object]:
    return {"title": figure.title, "data": list(figure.traces), "layout": figure.layout}


def _episodes_note(shown: int, groups: int) -> str:
    if not shown:
        return "The run has kept no episodes."
    return f"{shown:,} episodes, from all over the {groups:,} groups that were played."


def _embedded(value: object) -> str:
    """JSON that cannot end the script element that holds it, whatever a model wrote."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")
