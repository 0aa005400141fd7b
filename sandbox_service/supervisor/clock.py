"""Where the supervisor reads the time, so that tests can turn it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The two times that matter."""

    def monotonic(self) -> float:
        """Seconds that never jump: leases, queues, durations."""
        ...

    def time(self) -> float:
        """Unix time: records."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()
