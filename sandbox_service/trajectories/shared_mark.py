"""A mark that several supervisors write to an SQLite file: an empty file beside it.

A supervisor that is not alone leaves it with its lease, before it executes anything. The others look for it
at each create, which costs no query and, unlike a look at their next renewal, leaves no time in which the new
one executes creates that they know nothing of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


class SharedMark:
    """The mark of one database; that of a PostgreSQL database always counts as left."""

    def __init__(self, url: URL) -> None:
        self._path: Path | None = None
        if url.get_backend_name() == "sqlite":
            # SQLite follows links, too, before it names the files beside a database.
            path = Path(str(url.database)).resolve()
            self._path = path.with_name(f"{path.name}-shared")

    def is_left(self) -> bool:
        """Return whether the mark is there. It stays once it is."""
        return self._path is None or self._path.exists()

    def leave(self) -> None:
        """Leave the mark. Raises OSError."""
        # Not again: another user's file would refuse the touch.
        if self._path is not None and not self.is_left():
            self._path.touch(mode=0o600)
