"""Count failures without a success in between, such as those of a server that is down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

MOST_IN_A_ROW = 32
"""Failures in a row after which another attempt would fail as well."""
FAILING_S = 180.0
"""Time that they span at least where this is final. Episodes that end together fail together while a server
restarts."""


@dataclass(slots=True)
class FailureStreak:
    """The failures since the last success."""

    now: Callable[[], float]
    """Returns monotonic seconds."""
    count: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)

    def add_failure(self) -> None:
        """Count a failure."""
        if not self.count:
            self._since = self.now()
        self.count += 1

    def add_success(self) -> None:
        """Begin again, after a success."""
        self.count = 0

    @property
    def seconds(self) -> float:
        """Seconds since the first failure."""
        return self.now() - self._since if self.count else 0.0

    @property
    def is_outage(self) -> bool:
        """Whether there are so many that further attempts would fail at present."""
        return self.count >= MOST_IN_A_ROW

    @property
    def is_final(self) -> bool:
        """Whether they have also lasted so long that waiting is of no use."""
        return self.is_outage and self.seconds >= FAILING_S
