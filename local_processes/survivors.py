"""Processes that are still there after SIGKILL, as in an uninterruptible sleep: they are logged and left."""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger(__name__)

KILL_S = 10.0
"""Time for processes to end after SIGKILL."""


def log_survivors(names: Iterable[str], kill_s: float = KILL_S) -> None:
    """Log processes that did not end within ``kill_s`` after SIGKILL."""
    logger.error("still there %g s after SIGKILL, and left: %s", kill_s, ", ".join(names))
