"""An error that cannot say what it is."""

from __future__ import annotations

__all__ = ["WordlessError"]


class WordlessError(Exception):
    """Raises when it is asked for its message."""

    def __str__(self) -> str:
        raise ValueError("no words")
