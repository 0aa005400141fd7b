"""Count the errors of the last hour by class and time.

There is a count in memory for each class and five minutes: an error costs an addition, and a request without
an error nothing. The counts belong to one replica and end with it; Prometheus keeps longer histories.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

BUCKET_S = 300
_BUCKETS = 12


class ErrorHistory:
    """Counts errors in buckets of the clock, at 0, 5, 10 minutes and so on."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._counts: dict[int, Counter[str]] = {}

    def count(self, failure_class: str) -> None:
        """Count an error that happened now."""
        number = self._current()
        counts = self._counts.get(number)
        if counts is None:
            # At most once in five minutes.
            self._counts = {each: kept for each, kept in self._counts.items() if each > number - _BUCKETS}
            counts = self._counts[number] = Counter()
        counts[failure_class] += 1

    def last_hour(self) -> Mapping[float, Mapping[str, int]]:
        """Return the counts of each bucket by the unix time at which it begins, the current one last."""
        current = self._current()
        numbers = range(current - _BUCKETS + 1, current + 1)
        return {float(each * BUCKET_S): dict(self._counts.get(each, {})) for each in numbers}

    def _current(self) -> int:
        return int(self._clock() // BUCKET_S)
