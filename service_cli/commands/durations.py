"""Durations as they are typed: ``90m``, ``12h``, ``30d``."""

from __future__ import annotations

import re

import typer

_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")


def duration_s(text: str) -> float:
    """Return the seconds of a duration. Raises BadParameter for another text."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not a duration; write minutes, hours, days or weeks as 90m, 12h, 30d, 4w"
        )
    return float(found[1]) * _UNITS_S[found[2]]
