"""Collect the bad rows of files, so that one error names all of them before anything is loaded."""

from __future__ import annotations

from trainer.errors import DataError

SHOWN = 10
"""Bad rows that an error lists; the others are counted."""


class RowError(ValueError):
    """A row cannot be used; the message is the reason."""


class UnplayedError(RowError):
    """An episode has no message of the assistant."""


class BadRows:
    """The reasons why rows were rejected, in order."""

    def __init__(self, shown: int = SHOWN) -> None:
        self._shown = shown
        self._listed: list[str] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._count})"

    def add(self, place: object, reason: str) -> None:
        """Record a bad row: ``place`` as ``file:row``, and the reason."""
        self._count += 1
        if len(self._listed) < self._shown:
            self._listed.append(f"{place}: {reason}")

    def raise_any(self, read: int) -> None:
        """Raise DataError if any of the ``read`` rows is bad: one line for each, then the count."""
        if not self._count:
            return
        if self._count == 1 == len(self._listed):
            raise DataError(self._listed[0])
        more = self._count - len(self._listed)
        rest = f"\n... and {more} more" if more else ""
        raise DataError(f"{self._count} of {read} rows cannot be used:\n" + "\n".join(self._listed) + rest)
