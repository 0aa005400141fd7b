"""The time that a group of processes may take: what it computes and what it sleeps, not what it waits for.

On a quiet machine that is real time. On a busy one the clock stands still while a thread wants a processor
and gets none, up to a second, generous limit of real time. Looks come at random moments, so that nothing can
be awake for them alone, and none comes in the first moments: most operations are over by then.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.runner.kernel.cpu_usage import Usage

__all__ = ["Allowance", "kept_waiting"]

_LOOKS = 40
"""Looks in the time of an allowance."""
_SHORTEST_S = 0.02
_LONGEST_S = 0.25
_LOOK_SHARE = 0.05
"""Most of our own time that may go into looking."""
_ENOUGH = 0.75
"""Who had so much of its time was not kept from it."""
_PAUSE_S = 0.15
_TRIAL_S = 0.2


class Allowance:
    """Time for one operation of processes that ``look`` looks at."""

    def __init__(self, time_s: float, patience_s: float, look: Callable[[], Usage]) -> None:
        self.time_s = min(time_s, patience_s)
        self.patience_s = patience_s
        self.end = time.monotonic() + patience_s
        """When patience ends, on the monotonic clock."""
        self._look = look
        self._started = self._last = time.monotonic()
        self._cpu_s: float | None = None
        self._charged_s = 0.0
        self._pause_s = self._draw(0.0)

    @property
    def charged_s(self) -> float:
        """How much of the time is used; never more than has passed."""
        return min(self._charged_s, self._last - self._started)

    @property
    def waited_s(self) -> float:
        """How long the machine kept it waiting, as far as was looked."""
        return self._last - self._started - self.charged_s

    @property
    def wait_s(self) -> float:
        """How long nothing needs to be decided."""
        return max(0.0, min(self._last + self._pause_s, self.end) - time.monotonic())

    def over(self) -> bool:
        """Whether the time is used up, or patience has ended; looks at the processes when a look is due."""
        now = time.monotonic()
        if now >= min(self._last + self._pause_s, self.end):
            # When we come late to a look, the machine kept us waiting, and perhaps what we look at for us.
            self._account(now, min(now - self._last, self._pause_s))
        return self.charged_s >= self.time_s or now >= self.end

    def starved(self, still: Callable[[], AbstractContextManager[object]] = nullcontext) -> bool:
        """Whether the machine is to blame for the end, not what ran; ``still`` as for ``kept_waiting``."""
        return kept_waiting(self.charged_s, self.time_s, self.patience_s, still)

    def blocked(self) -> None:
        """Look after a wait for what runs itself, in which no look could be made."""
        now = time.monotonic()
        self._account(now, now - self._last)

    def _account(self, now: float, passed: float) -> None:
        usage = self._look()
        if not usage.runnable:
            self._charged_s += passed
        elif self._cpu_s is None:
            self._charged_s += min(passed, self._pause_s)
        if self._cpu_s is not None:
            # Processes for which no other waited take their time with them.
            self._charged_s += max(0.0, usage.cpu_s - self._cpu_s)
        self._cpu_s = usage.cpu_s
        self._last = now
        self._pause_s = self._draw(time.monotonic() - now)

    def _draw(self, cost_s: float) -> float:
        usual = min(_LONGEST_S, max(_SHORTEST_S, self.time_s / _LOOKS, cost_s / _LOOK_SHARE))
        return usual * (0.5 + int.from_bytes(os.urandom(2), "big") / 65536)


def kept_waiting(
    charged_s: float,
    time_s: float,
    patience_s: float,
    still: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> bool:
    """Whether the machine is so busy that it explains why only so much of the time was used within patience.

    Processes can look starved by what they do to each other. So a trial of our own decides: what it gets of a
    processor while they do not run is what a thread that never slept would have had. ``still`` stops those
    that have not ended.
    """
    if charged_s >= _ENOUGH * time_s:
        return False
    with still():
        share = _share_of_processor()
    return share * patience_s < _ENOUGH * time_s


def _share_of_processor() -> float:
    # A group that has used up its quota of this period runs again in the next one.
    time.sleep(_PAUSE_S)
    started, used = time.monotonic(), time.thread_time()
    while time.monotonic() - started < _TRIAL_S:
        pass
    return (time.thread_time() - used) / (time.monotonic() - started)
