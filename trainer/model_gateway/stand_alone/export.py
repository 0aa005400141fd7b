"""Append the recordings of ended sessions to a file, one JSON document a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING

from trainer.appended_lines import cut_torn_line, torn_line

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


class Export:
    """A JSON Lines file. Raises OSError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        self._path = path
        if path.is_file():
            self._end_last_line()
        self._lock = asyncio.Lock()
        self.failed = 0
        """Recordings that could not be written."""

    async def append(self, document: bytes) -> None:
        """Write a document, in a thread. A failure is logged: the document can still be read over HTTP."""
        async with self._lock:
            try:
                await asyncio.to_thread(self._append, document)
            except OSError as error:
                self.failed += 1
                logger.error("a recording was not exported to %s: %s", self._path, error)

    def _end_last_line(self) -> None:
        """Give a last line its end; cut it off if it is no JSON, as what a killed process wrote in part."""
        last = torn_line(self._path)
        try:
            json.loads(last or b"{}")
        except (ValueError, RecursionError):
            logger.warning("%s ended in a line of %d bytes that is not JSON; cut off", self._path, len(last))
            cut_torn_line(self._path)
        else:
            if last:
                with self._path.open("ab") as file:
                    file.write(b"\n")

    def _append(self, document: bytes) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(document + b"\n")
        except OSError:
            if self._path.is_file():
                with contextlib.suppress(OSError):
                    cut_torn_line(self._path)
            raise
