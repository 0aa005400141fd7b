"""A judge's file: answers by the content of their requests, and what each run has spent.

A file may be shared by runs and processes: answers are found by any of them, and budgets are counted by the
id of the run, so that one that replaces another in its folder begins with a budget of its own.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import ConfigError

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spent (run TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL);
"""
_BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests and tokens of a run so far."""

    calls: int
    tokens: int


class JudgeStore:
    """The file of one run. Raises ConfigError when it cannot be opened."""

    def __init__(self, file: Path, run: str) -> None:
        self._run = run
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(file, timeout=_BUSY_S, check_same_thread=False)
            self._database.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"reward.judge.cache: {file} cannot be used: {error}") from error

    def find_answer(self, key: str) -> str | None:
        """Return a remembered answer."""
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def spent(self) -> Spent:
        """Return what the run has spent."""
        row = self._database.execute("SELECT calls, tokens FROM spent WHERE run = ?", (self._run,)).fetchone()
        return Spent(0, 0) if row is None else Spent(*row)

    def add_spent(self, calls: int, tokens: int) -> None:
        """Count requests and tokens."""
        with self._database:
            self._database.execute(
                "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE "
                "SET calls = calls + excluded.calls, tokens = tokens + excluded.tokens",
                (self._run, calls, tokens),
            )

    def remember(self, key: str, answer: str) -> None:
        """Keep an answer."""
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))

    def close(self) -> None:
        """Close the file."""
        self._database.close()
