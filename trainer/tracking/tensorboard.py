"""TensorBoard event files, written without torch."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorboardTracker:
    """Write a scalar per metric. View them with ``tensorboard --logdir FOLDER``."""

    def __init__(self, folder: Path) -> None:
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        events: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._event: Any = events.Event
        self._session: Any = events.SessionLog
        self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._writer: Any = writer.EventFileWriter(str(folder))
        self._open = True
        self._last: int | None = None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._last is None or step < self._last:
            # A run that goes on from a checkpoint: TensorBoard forgets this step and all later ones.
            begin = self._session(status=self._session.START)
            self._writer.add_event(self._event(wall_time=time.time(), step=step, session_log=begin))
        self._last = step
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._writer.close()
