"""Space out starts of boxes that fail, and decide when to give up.

One success clears all failures. Until then a single start at a time is allowed, as a probe.
"""

from __future__ import annotations

from dataclasses import dataclass

from local_processes.waiting import exponential_wait_s

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_MOST_FAILURES = 3
"""Failures in a row after which waiters are refused and no longer kept waiting."""


@dataclass(slots=True)
class StartBackoff:
    """Failed starts in a row, and the time before which no start is tried."""

    failures: int = 0
    until: float = 0.0
    lasting: bool = False
    """The last failure will happen again whatever is tried: no image, no storage."""

    def failed(self, now: float, *, lasting: bool) -> None:
        """Count a failure; each one in a row doubles the wait."""
        self.failures += 1
        wait = exponential_wait_s(_FIRST_WAIT_S, _LONGEST_WAIT_S, self.failures)
        self.until = now + wait
        self.lasting = lasting

    def succeeded(self) -> None:
        """Clear all failures."""
        self.failures = 0
        self.until = 0.0
        self.lasting = False

    def allows(self, now: float, starting: int) -> bool:
        """Return whether a box may be started now, beside ``starting`` others."""
        return self.failures == 0 or (now >= self.until and starting == 0)

    @property
    def permanently_failing(self) -> bool:
        """Whether a create that needs a new box should fail at once."""
        return self.lasting or self.failures >= _MOST_FAILURES
