"""Whether an engine's next step waits for requests that are about to come. A pure decision by the clock.

On a CPU a step costs much the same whatever the number of its sequences. When many episodes begin, their
first requests come one after another, and an engine that steps at once does so hundreds of times with a few
sequences each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FEW = 4
"""A step waits while fewer than this part of what ran lately is there."""
WINDOW_S = 0.04
"""Since the last request came: while they come faster than that, more are on their way."""
LONGEST_S = 0.2
"""A step waits no longer, for the sake of those that are there."""
MEMORY = 512
"""Steps over which what ran lately is forgotten."""


class Arrivals:
    """Requests as they come, of one engine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lately = 0.0
        self._came = self._waits_since = float("-inf")
        self._waits = False

    def came(self) -> None:
        """There is one more request."""
        self._came = self._clock()

    def stepped(self, running: int) -> None:
        """A step was made with so many sequences."""
        self._lately = max(float(running), self._lately * (1 - 1 / MEMORY))
        self._waits = False

    def pause_s(self, running: int) -> float:
        """Seconds for which the next step waits, if nothing comes meanwhile; 0 to step now."""
        now = self._clock()
        if running * FEW >= self._lately:
            return 0.0
        if not self._waits:
            self._waits, self._waits_since = True, now
        return max(0.0, min(self._came + WINDOW_S, self._waits_since + LONGEST_S) - now)
