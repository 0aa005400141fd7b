"""Messages for names that a service does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_environment(name: str, found: Iterable[str]) -> str:
    """Return the message for an unknown environment."""
    there = sorted(found)
    close = difflib.get_close_matches(name, there, n=1)
    proposal = f"; did you mean {close[0]}?" if close else ""
    return f"unknown environment {name!r}; the service has: {', '.join(there)}{proposal}"
