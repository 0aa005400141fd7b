"""Times as they are typed: ``2026-01-31``, ``2026-01-31 18:00``, ``2026-01-31T18:00Z``."""

from __future__ import annotations

from datetime import datetime

import typer

EXAMPLES = "2026-01-31 or '2026-01-31 18:00' in local time, or 2026-01-31T18:00+02:00"


def unix_time(text: str) -> float:
    """Return the unix time of a date or time, local without an offset. Raises BadParameter."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a time; write {EXAMPLES}") from None
