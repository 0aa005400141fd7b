"""Messages for names that a service does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_environment(name: str, found: Iterable[str]) -> str:
    """Return the message for an unknown environment."""
    return f"unknown environment {name!r}; the service has: {_names(name, found)}"


def unrecorded_environment(name: str, found: Iterable[str]) -> str:
    """Return the message for an environment of which a store has no episode."""
    return f"no episodes of environment {name!r}; the store has those of: {_names(name, found)}"


def _names(name: str, found: Iterable[str]) -> str:
    there = sorted(found)
    close = difflib.get_close_matches(name, there, n=1)
    return ", ".join(there) + (f"; did you mean {close[0]}?" if close else "")
