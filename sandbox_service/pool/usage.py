"""Count the bytes recorded for each tenant within a day, by the hour.

No clock: time is an argument. Hours older than a day are forgotten.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

_HOUR_S = 3600.0
_HOURS = 24
DAY_S = _HOURS * _HOUR_S


class DailyBytes:
    """A counter of recorded bytes for each tenant."""

    def __init__(self) -> None:
        self._hours: defaultdict[str, deque[tuple[int, int]]] = defaultdict(deque)

    def add(self, tenant: str, size: int, now: float) -> None:
        """Count bytes that are recorded now."""
        hour = int(now // _HOUR_S)
        hours = self._hours[tenant]
        if hours and hours[-1][0] == hour:
            hours[-1] = (hour, hours[-1][1] + size)
        else:
            hours.append((hour, size))

    def recall(self, tenant: str, size: int, at: float) -> None:
        """Count bytes that were recorded at an earlier time."""
        hour = int(at // _HOUR_S)
        sizes = dict(self._hours[tenant])
        sizes[hour] = sizes.get(hour, 0) + size
        self._hours[tenant] = deque(sorted(sizes.items()))

    def recorded(self, tenant: str, now: float) -> int:
        """Return the bytes of the last day."""
        hours = self._hours.get(tenant)
        if hours is None:
            return 0
        while hours and hours[0][0] <= now // _HOUR_S - _HOURS:
            hours.popleft()
        if not hours:
            del self._hours[tenant]
        return sum(size for _, size in hours)

    def frees_in_s(self, tenant: str, now: float) -> float:
        """Return the seconds until a tenant's oldest hour is forgotten."""
        hours = self._hours.get(tenant)
        if not hours:
            return 0.0
        return float(math.ceil(max(0.0, (hours[0][0] + _HOURS) * _HOUR_S - now)))
