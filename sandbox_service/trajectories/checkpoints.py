"""Checkpoint an SQLite file's write-ahead log beside the writer.

A checkpoint copies the log into the file and waits for the disk. SQLite by itself makes one within a commit,
and answers wait for that commit. Here a thread makes them over a connection of its own, while commits go on.
Commits keep a limit of their own, so that the log is bounded when no checkpoint ever catches up with them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine


CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Bytes in the log after which a checkpoint is made."""
_TRANSACTION_BYTES = 20 * 1024
"""Bytes of the log that a transaction takes beside the bodies: pages of the tables and their indexes."""
_STOP_S = 5.0

logger = get_logger(__name__)


class Checkpoints:
    """The thread that makes the checkpoints of one file."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bytes = 0
        self._due = threading.Event()
        self._stopping = False
        # A daemon, so that a disk that hangs cannot keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="trajectory-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, size: int) -> None:
        """Note a transaction with so many bytes of bodies."""
        self._bytes += size + _TRANSACTION_BYTES
        if self._bytes >= CHECKPOINT_BYTES:
            self._bytes = 0
            self._due.set()

    def stop(self) -> None:
        """End the thread after the checkpoint that it makes."""
        self._stopping = True
        self._due.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._stopping:
                return
            try:
                with self._engine.connect() as connection:
                    # Passive: it waits for no reader and no writer, and neither waits for it.
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
            except SQLAlchemyError as error:
                # The log grows until a commit makes a checkpoint, and reports what is wrong with the disk.
                logger.warning("trajectory_checkpoint_failed", reason=str(getattr(error, "orig", error)))
