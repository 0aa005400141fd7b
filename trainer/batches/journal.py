"""The durable record of a run: events in order, and the episodes of groups that a batch may still need.

Each append is one transaction that is on disk when the call returns. Events are never changed; the payloads
of groups that no step can ask for any more are removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import to_json

from trainer.errors import CheckpointError

from .events import EVENTS
from .payloads import group_from_payload, group_to_payload

if TYPE_CHECKING:
    from trainer.types import TrajectoryGroup

    from .events import Event


_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS payloads (group_index INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS exports (name TEXT PRIMARY KEY, step INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS engines (only INTEGER PRIMARY KEY CHECK (only = 0), version INTEGER);
"""
_FILE, _FORMER_FILE = "batches.sqlite", "experience.sqlite"


def journal_file(folder: Path) -> Path:
    """Return the journal's file in a run's folder; a run of an earlier version keeps its former one."""
    # A rename of it would not be atomic: SQLite may have left a write-ahead log beside the file.
    former = folder / _FORMER_FILE
    return former if former.exists() else folder / _FILE


class BatchJournal:
    """One SQLite file, used by one process and one thread at a time."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self._connection = sqlite3.connect(file, isolation_level=None, timeout=30.0, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        # With NORMAL, a power failure would take back the last transactions, and a batch is handed out when
        # its own is committed.
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)

    def append(self, event: Event, payload: TrajectoryGroup | None = None) -> None:
        """Keep an event, and the episodes of a group that became ready."""
        body = to_json(event, inf_nan_mode="constants").decode()
        episodes = None if payload is None else (payload.spec.index, group_to_payload(payload))
        with self._transaction():
            self._connection.execute("INSERT INTO events (kind, body) VALUES (?, ?)", (event.kind, body))
            if episodes is not None:
                self._connection.execute("INSERT INTO payloads VALUES (?, ?)", episodes)

    def append_all(self, entries: Iterable[tuple[Event, TrajectoryGroup | None]]) -> None:
        """Keep several events in one transaction: all of them, or none."""
        with self._transaction():
            for event, payload in entries:
                self.append(event, payload)

    def events(self) -> Iterator[Event]:
        """Yield all events, in order."""
        for (body,) in self._connection.execute("SELECT body FROM events ORDER BY sequence"):
            yield EVENTS.validate_json(body)

    def group(self, index: int) -> TrajectoryGroup:
        """Return the episodes of a group. Raises CheckpointError when they were removed."""
        row = self._connection.execute("SELECT body FROM payloads WHERE group_index = ?", (index,)).fetchone()
        if row is None:
            raise CheckpointError(f"{self._file} does not have the episodes of group {index} any more")
        return group_from_payload(row[0])

    def keep_only(self, groups: Collection[int]) -> None:
        """Remove the episodes of all groups but these."""
        held = [index for (index,) in self._connection.execute("SELECT group_index FROM payloads")]
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM payloads WHERE group_index = ?", [(i,) for i in held if i not in groups]
            )

    def exported(self) -> dict[str, tuple[int, int]]:
        """Return for each file that batches are written to: the last step in it, and its length in bytes."""
        rows = self._connection.execute("SELECT name, step, bytes FROM exports")
        return {name: (step, size) for name, step, size in rows}

    def mark_exported(self, step: int, sizes: Mapping[str, int]) -> None:
        """Record that the files hold everything up to a step."""
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO exports VALUES (?, ?, ?)",
                [(name, step, size) for name, size in sizes.items()],
            )

    def set_version(self, version: int | None) -> None:
        """Keep the version that the engines sample with; None while it is unknown."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO engines VALUES (0, ?)", (version,))

    def version(self) -> int | None:
        """Return the version that the engines sampled with when it was last recorded."""
        row = self._connection.execute("SELECT version FROM engines").fetchone()
        return None if row is None else row[0]

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Open a transaction, or join the one that is open."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
