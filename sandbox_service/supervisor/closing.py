"""The longest times of the steps in which a supervisor ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.sandboxes.base import DESTROY_S
from sandbox_service.stream.options import ServerOptions

if TYPE_CHECKING:
    from sandbox_service.config import DeadlineConfig


_LATE_S = 5.0
"""Time by which tasks may miss their own deadlines on a busy machine before they are cancelled."""
_RECORDS_S = 10.0
"""Time for the last records, and for the steps that wait for nothing."""


def boxes_s(deadlines: DeadlineConfig) -> float:
    """Return the time that a pool waits for its boxes at its end, of which each has ``release_s``."""
    return deadlines.release_s + _LATE_S


def stop_s(deadlines: DeadlineConfig) -> float:
    """Return the longest time in which a supervisor ends its operations and destroys its boxes.

    Operations finish, peers read their last answers, boxes are destroyed, and the last records are written.
    A destruction that its pool gives up goes on, within a time that began with it.
    """
    last_answers_s = ServerOptions().hang_up_timeout_s
    return deadlines.drain_s + last_answers_s + max(boxes_s(deadlines), DESTROY_S) + _RECORDS_S
