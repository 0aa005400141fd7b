"""Collect the bad rows of files, so that one error names all of them before anything is loaded."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainer.errors import DataError

SHOWN = 10
"""Bad rows that an error lists itself."""


class RowError(ValueError):
    """A row cannot be used; the message is the reason."""


class UnplayedError(RowError):
    """An episode has no message of the assistant."""


class BadRows:
    """The reasons why rows were rejected, in order.

    With ``lists`` False, no file is written: of many bad rows, the error has the first ones and the count.
    """

    def __init__(self, *, lists: bool = True) -> None:
        self._lists = lists
        self._places: list[str] = []
        self._reasons: list[str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._places)})"

    def add(self, place: object, reason: str) -> None:
        """Record a bad row: ``place`` as ``file:row``, and the reason."""
        self._places.append(str(place))
        self._reasons.append(reason)

    def raise_any(self, read: int) -> None:
        """Raise DataError if any of the ``read`` rows is bad: their count, and one line for each.

        Of more than ``SHOWN``, the error has the first ones and the path of a file with all of them, if the
        rows are to be listed.
        """
        lines = [f"{place}: {reason}" for place, reason in zip(self._places, self._reasons, strict=True)]
        if not lines:
            return
        if len(lines) == 1:
            raise DataError(lines[0])
        count = f"{len(lines)} of {read} rows cannot be used"
        if len(lines) > SHOWN:
            count += f"; {self._written(lines)} lists all of them" if self._lists else ""
            lines = [*lines[:SHOWN], f"... and {len(lines) - SHOWN} more"]
        raise DataError("\n".join([f"{count}:", *lines]))

    def _written(self, lines: Sequence[str]) -> Path:
        """Write the list beside the first bad row's file, or to a temporary file where that cannot be."""
        file = Path(self._places[0].rpartition(":")[0])
        target = file.with_name(f"{file.name}.bad")
        text = "".join(f"{line}\n" for line in lines)
        try:
            if not file.is_file():  # the rows are those of a service
                raise FileNotFoundError(file)
            target.write_text(text, encoding="utf-8")
        except OSError:
            opened, name = tempfile.mkstemp(prefix="bad_rows_", suffix=".txt")
            target = Path(name)
            with os.fdopen(opened, "w", encoding="utf-8") as temporary:
                temporary.write(text)
        return target
