"""Decide whether an engine's next step waits for further requests, by arrival times; pure.

On a CPU the time of a step hardly depends on its number of sequences. When many episodes begin, their first
requests arrive one after another, and an engine that did not wait would take hundreds of steps with a few
sequences each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FEW = 4
"""A step waits while there are fewer sequences than a fourth of the recent number."""
WINDOW_S = 0.04
"""Seconds since the last request after which no further one is expected."""
LONGEST_S = 0.2
"""Greatest wait of a step, in seconds."""
MEMORY = 512
"""Steps over which the recent number of sequences decays."""


class Arrivals:
    """Arrival times of one engine's requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lately = 0.0
        self._came = self._waits_since = float("-inf")
        self._waits = False

    def came(self) -> None:
        """Record an arrival."""
        self._came = self._clock()

    def stepped(self, running: int) -> None:
        """Record a step with ``running`` sequences."""
        self._lately = max(float(running), self._lately * (1 - 1 / MEMORY))
        self._waits = False

    def pause_s(self, running: int) -> float:
        """Return the seconds that the next step waits if no request arrives; 0 to step now."""
        now = self._clock()
        if running * FEW >= self._lately:
            return 0.0
        if not self._waits:
            self._waits, self._waits_since = True, now
        return max(0.0, min(self._came + WINDOW_S, self._waits_since + LONGEST_S) - now)
