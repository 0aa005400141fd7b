"""Space out starts of boxes that fail, and decide when to give up.

One success forgets all failures. While failures are remembered, a single start at a time is a probe.
"""

from __future__ import annotations

from dataclasses import dataclass

from local_processes.waiting import exponential_wait_s

__all__ = ["StartBackoff"]

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_PATIENCE = 3
"""Failures in a row after which waiters are told instead of kept."""


@dataclass(slots=True)
class StartBackoff:
    """Failures of starts in a row, and the time before which no start is tried."""

    failures: int = 0
    until: float = 0.0
    lasting: bool = False
    """The last failure will not go away by trying again: no image, no storage."""

    def failed(self, now: float, *, lasting: bool) -> None:
        """Remember a failure; each one in a row doubles the wait."""
        self.failures += 1
        wait = exponential_wait_s(_FIRST_WAIT_S, _LONGEST_WAIT_S, self.failures)
        self.until = now + wait
        self.lasting = lasting

    def succeeded(self) -> None:
        """Forget all failures."""
        self.failures = 0
        self.until = 0.0
        self.lasting = False

    def allows(self, now: float, starting: int) -> bool:
        """Whether a box may be started now, beside ``starting`` others."""
        return self.failures == 0 or (now >= self.until and starting == 0)

    @property
    def hopeless(self) -> bool:
        """Whether a create that needs a new box should fail at once."""
        return self.lasting or self.failures >= _PATIENCE
