"""A judge's file: answers by the content of their requests, and what each run has spent.

A file may be shared by runs and processes: answers are found by any of them, and budgets are counted by the
id of the run, so that one that replaces another in its folder begins with a budget of its own. Others may
hold it for long, so a thread uses it, and no event loop waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from local_processes.serial_thread import SerialThread
from trainer.errors import ConfigError, JudgeFailed

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
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

    def __init__(self, file: Path, run: str, busy_s: float = _BUSY_S) -> None:
        """``busy_s`` is the time that each use of the file waits for another process that holds it."""
        self._file = file
        self._run = run
        self._wait_s = 2 * busy_s  # a use of the file may be behind another
        self._uncounted = 0
        self._closed = False
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(file, timeout=busy_s, check_same_thread=False)
            self._database.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"reward.judge.cache: {file} cannot be used: {error}") from error
        self._thread = SerialThread("judge store")

    async def find_answer(self, key: str) -> str | None:
        """Return a remembered answer. Raises JudgeFailed where the file cannot be used."""
        return await self._done(partial(self._find, key))

    async def spent(self) -> Spent:
        """Return what the run has spent, all calls before this one included. Raises JudgeFailed."""
        return await self._done(self._read_spent)

    async def add_spent(self, calls: int, tokens: int) -> None:
        """Count requests and tokens. Raises JudgeFailed."""
        await self._done(partial(self._add, calls, tokens))

    def count_tokens(self, tokens: int) -> None:
        """Count tokens without waiting; where the file cannot be used, with the next request."""
        self._thread.submit(partial(self._add_later, tokens))

    def remember(self, key: str, answer: str) -> None:
        """Keep an answer, without waiting; where the file cannot be used, it is asked for again."""
        self._thread.submit(partial(self._keep, key, answer))

    async def close(self) -> None:
        """Close the file, after what is still to be written. Idempotent."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.wrap_future(self._thread.submit(self._database.close))
        self._thread.end_thread()
        if not (await asyncio.wait({closing}, timeout=self._wait_s))[0]:
            logger.warning("%s: not all was written within %g s", self._file, self._wait_s)
            closing.cancel()

    async def _done(self, use: Callable[[], _Result]) -> _Result:
        try:
            async with asyncio.timeout(self._wait_s):
                return await asyncio.wrap_future(self._thread.submit(use))
        except TimeoutError as error:
            raise JudgeFailed(f"the judge's file {self._file} is in use for {self._wait_s:g} s") from error
        except sqlite3.Error as error:
            raise JudgeFailed(f"the judge's file {self._file} cannot be used: {error}") from error

    def _find(self, key: str) -> str | None:
        row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _read_spent(self) -> Spent:
        row = self._database.execute("SELECT calls, tokens FROM spent WHERE run = ?", (self._run,)).fetchone()
        calls, tokens = (0, 0) if row is None else row
        return Spent(calls, tokens + self._uncounted)

    def _add(self, calls: int, tokens: int) -> None:
        with self._database:
            self._database.execute(
                "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE "
                "SET calls = calls + excluded.calls, tokens = tokens + excluded.tokens",
                (self._run, calls, tokens + self._uncounted),
            )
        self._uncounted = 0

    def _add_later(self, tokens: int) -> None:
        try:
            self._add(0, tokens)
        except sqlite3.Error as error:
            self._uncounted += tokens
            logger.warning("%s: %d tokens are counted later: %s", self._file, tokens, error)

    def _keep(self, key: str, answer: str) -> None:
        try:
            with self._database:
                self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))
        except sqlite3.Error as error:
            logger.warning("%s: an answer was not kept: %s", self._file, error)
