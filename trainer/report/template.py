"""Fill page templates with styles, scripts and data, so that a page is one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from plotly.offline import get_plotlyjs

from page_styles import shared_styles
from trainer.finite_json import finite

if TYPE_CHECKING:
    from .figure import Figure


Sections = list[tuple[str, "list[Figure]"]]
"""Headings, and the figures below each."""


def filled(template: str, **parts: str) -> str:
    """Return the template with each ``%%name%%`` replaced by its part."""
    known = {
        "style": shared_styles() + _asset("style.css"),
        "plotly": get_plotlyjs(),
        "plots_script": _asset("plots.js"),
        "episodes_script": _asset("episodes.js"),
        **parts,
    }
    pieces = _asset(template).split("%%")
    return "".join(known[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def places_of(sections: Sections) -> str:
    """Return a heading for each section, and a placeholder for each figure, which the script fills when
    visible.
    """
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


def figures_of(sections: Sections) -> str:
    """Return the data of all figures, in the order of their placeholders."""
    figures: Sequence[Figure] = [figure for _, listed in sections for figure in listed]
    return embedded(
        [{"title": each.title, "data": list(each.traces), "layout": each.layout} for each in figures]
    )


def embedded(value: object) -> str:
    """Return JSON that cannot close the script element that holds it, whatever a model wrote.

    Numbers that are not finite become null: JSON has none, and a browser would reject all of it for one. Half
    surrogate pairs, which a model's escapes may leave, become question marks: no page could be written.
    """
    text = json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.encode("utf-8", "replace").decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
