"""How long the gateway waits for an answer: the operation's own deadline and what may come before it.

The supervisor enforces the deadlines of operations; these are the backstop behind it, so they leave room
for a box that has to be started and an instance that has to be rebuilt first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from sandbox_service.config import DeadlineConfig


_MARGIN_S = 5.0
_INSPECTION_S = 10.0
_FILES_S = 30.0


class Deadlines:
    """Seconds that the gateway waits, by operation."""

    def __init__(self, deadline: DeadlineConfig, queue_timeout_s: float) -> None:
        rebuild_s = deadline.start_s + deadline.create_s + _MARGIN_S
        self._step_s = deadline.step_s
        self._rebuild_s = rebuild_s
        self._waits = {
            Op.CREATE: queue_timeout_s + rebuild_s,
            Op.FORK: queue_timeout_s + rebuild_s,
            Op.EVALUATE: deadline.evaluate_s + rebuild_s,
            Op.RELEASE: deadline.release_s + _MARGIN_S,
            Op.FILE_READ: _FILES_S + rebuild_s,
            Op.FILE_WRITE: _FILES_S + rebuild_s,
            Op.FILE_LIST: _FILES_S + rebuild_s,
        }

    def of(self, op: Op, wanted_s: float | None = None) -> float:
        """The wait for ``op``; a step may ask for less than the service allows."""
        if op is Op.STEP:
            return min(wanted_s or self._step_s, self._step_s) + self._rebuild_s
        return self._waits.get(op, _INSPECTION_S)
