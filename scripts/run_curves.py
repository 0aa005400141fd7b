"""Draw metrics of a run as an SVG for a page of the documentation, one panel each.

``python -m scripts.run_curves RUN_FOLDER FILE.svg METRIC[=LIMIT]...`` reads ``metrics.jsonl``. Each panel has
the values of all steps that have the metric, faint, their moving mean, and a dashed line at the limit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from trainer.report.figure import PALETTE
from trainer.report.series import Series, series, smoothed
from trainer.tracking.jsonl import read_metrics

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 360, 220, 48, 28, 34
"""Pixels of a panel and its margins."""
RIGHT = 12


def main(run: Path, file: Path, wanted: Sequence[str]) -> None:
    """Write the panels of a run."""
    metrics = read_metrics(run / "metrics.jsonl")
    panels = []
    for place, each in enumerate(wanted):
        name, _, limit = each.partition("=")
        found = series(metrics, name)
        if found is None:
            raise SystemExit(f"{run / 'metrics.jsonl'} has no step with {name}")
        panels.append(_panel(name, found, float(limit) if limit else None, place))
    width = WIDTH * len(panels)
    style = 'font-family="sans-serif" font-size="11" fill="#333"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" {style}>'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([head, *panels, "</svg>", ""]), encoding="utf-8")


def _panel(name: str, found: Series, limit: float | None, place: int) -> str:
    first, last = found.steps[0], found.steps[-1]
    shown = (*found.values, 0.0, *([limit] if limit is not None else []))
    low, high = min(shown), max(shown)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(1, last - first)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def path(line: Series, width: float, opacity: float) -> str:
        places = zip(line.steps, line.values, strict=True)
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in places)
        colour = PALETTE[place % len(PALETTE)]
        stroke = f'stroke="{colour}" stroke-width="{width}" stroke-opacity="{opacity}"'
        return f'<polyline fill="none" {stroke} points="{points}"/>'

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<g transform="translate({place * WIDTH},0)">',
        f'<text x="{LEFT}" y="16" font-weight="bold">{escape(name)}</text>',
        f'<path fill="none" stroke="#999" d="M{LEFT},{TOP}V{bottom}H{right}"/>',
        *(
            f'<text x="{LEFT - 4}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
            for value in (low, high)
        ),
        f'<text x="{LEFT}" y="{bottom + 14}">0</text>',
        f'<text x="{right}" y="{bottom + 14}" text-anchor="end">step {last - first}</text>',
    ]
    if limit is not None:
        parts.append(f'<path stroke="#333" stroke-dasharray="4 3" d="M{LEFT},{y(limit):.1f}H{right}"/>')
        parts.append(f'<text x="{right}" y="{y(limit) - 4:.1f}" text-anchor="end">limit {limit:g}</text>')
    mean = smoothed(found)
    parts.append(path(found, 1.0 if mean else 2.0, 0.35 if mean else 1.0))
    if mean is not None:
        parts.append(path(mean, 2.0, 1.0))
    return "\n".join([*parts, "</g>"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
