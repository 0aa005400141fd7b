"""Limit the time that a group of processes may compute and sleep, without what it waits for a processor.

On a quiet machine that is real time. On a busy one the time in which a thread is runnable and gets no
processor does not count, up to a second, longer limit of real time. The processes are sampled at random
moments, so that none can arrange to be seen only when it waits, and not in the first moments: most
operations are over by then.

gVisor's kernel reports such a wait as processor time. There, once the time is used up, a busy loop of this
process finds the share of a processor that a thread gets, and only so much of what was computed counts. The
processes are stopped meanwhile, or dead: they could make the machine look busy.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.processor_share import share_of_processor, waits_are_counted

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.cpu_usage import CpuUsage


_LOOKS = 40
"""Samples in the time of an allowance."""
_SHORTEST_S = 0.02
_LONGEST_S = 0.25
_LOOK_SHARE = 0.05
"""The largest share of the worker's own time that may go into sampling."""
_ENOUGH = 0.75
"""Processes that had this share of their time are not counted as starved."""
_PAUSE_S = 0.15
"""A group that has used up its quota of this period runs again in the next one."""
_CHECK = share_of_processor if waits_are_counted() else None
_LEAST_SHARE = 0.01


class Allowance:
    """The time for one operation.

    ``look`` samples the processes that it is for. It is given the processor time that would use up the
    allowance, and need not look on when it has found as much.

    ``check`` finds the share of a processor that a thread gets, for a kernel that reports waits as processor
    time; None for others. With ``still``, which stops the processes for a block, they go on after their time
    if the machine kept them from it; without, only ``starved`` says so.
    """

    def __init__(
        self,
        time_s: float,
        wall_timeout_s: float,
        look: Callable[[float], CpuUsage],
        *,
        still: Callable[[], AbstractContextManager[object]] | None = None,
        check: Callable[[], float] | None = _CHECK,
    ) -> None:
        self.time_s = min(time_s, wall_timeout_s)
        self.wall_timeout_s = wall_timeout_s
        self.end = time.monotonic() + wall_timeout_s
        """The limit of real time, on the monotonic clock."""
        self._look = look
        self._still = still
        self._check = check
        self._started = self._last = time.monotonic()
        self._cpu_s: float | None = None
        self._slept_s = 0.0
        self._computed_s = 0.0
        self._share = 1.0
        self._confirmed = False
        self._pause_s = self._draw(0.0)

    @property
    def charged_s(self) -> float:
        """The part of the time that is used, never more than has passed."""
        passed = self._last - self._started
        return min(self._slept_s + self._share * min(self._computed_s, passed), passed)

    @property
    def waited_s(self) -> float:
        """Seconds that the processes waited for a processor, up to the last sample."""
        return self._last - self._started - self.charged_s

    @property
    def wait_s(self) -> float:
        """Return the seconds until the next sample or the end."""
        return max(0.0, min(self._last + self._pause_s, self.end) - time.monotonic())

    def over(self) -> bool:
        """Return whether the time or the limit of real time is used up; take a sample when one is due."""
        now = time.monotonic()
        due = now >= min(self._last + self._pause_s, self.end)
        # Beside a fork bomb a sample takes seconds, and after the end it would change nothing.
        if due and self.charged_s < self.time_s and self._last < self.end:
            # A sample that comes late was kept waiting by the machine, and the processes perhaps as well.
            self._account(now, min(now - self._last, self._pause_s))
            if self._still is not None and (self.charged_s >= self.time_s or now >= self.end):
                self._correct(self._still)
        return self.charged_s >= self.time_s or now >= self.end

    def starved(self) -> bool:
        """Return whether a busy machine caused the end, not what ran, which is stopped or has ended."""
        still = self._still or nullcontext
        if self._check is None:
            return kept_waiting(self.charged_s, self.time_s, self.wall_timeout_s, still)
        self._correct(still)
        return self.charged_s < _ENOUGH * self.time_s

    def blocked(self) -> None:
        """Take a sample after a wait for the processes themselves, during which none could be taken."""
        now = time.monotonic()
        self._account(now, now - self._last)

    def _account(self, now: float, passed: float) -> None:
        known = math.inf if self._cpu_s is None else self._cpu_s
        usage = self._look(known + (self.time_s - self._slept_s) / self._share - self._computed_s)
        if not usage.runnable:
            self._slept_s += passed
        elif self._cpu_s is None:
            self._computed_s += min(passed, self._pause_s)
        if self._cpu_s is not None:
            # The sum falls when a process ends that no other one of the group has waited for.
            self._computed_s += max(0.0, usage.cpu_s - self._cpu_s)
        self._cpu_s = usage.cpu_s
        self._last = now
        self._pause_s = self._draw(time.monotonic() - now)

    def _correct(self, still: Callable[[], AbstractContextManager[object]]) -> None:
        """Count of what was computed, in all, the share of a processor that a thread gets without it."""
        if self._check is None or self._confirmed:
            return
        # The time that many threads computed at once is charged as time that passed.
        self._computed_s = min(self._computed_s, self._last - self._started)
        with still():
            time.sleep(_PAUSE_S)
            share = max(self._check(), _LEAST_SHARE)
        self._confirmed = share >= _ENOUGH * self._share
        if not self._confirmed:
            self._share = share

    def _draw(self, cost_s: float) -> float:
        usual = min(_LONGEST_S, max(_SHORTEST_S, self.time_s / _LOOKS, cost_s / _LOOK_SHARE))
        return usual * (0.5 + int.from_bytes(os.urandom(2), "big") / 65536)


def kept_waiting(
    charged_s: float,
    time_s: float,
    wall_timeout_s: float,
    still: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> bool:
    """Return whether the machine is busy enough to explain that only ``charged_s`` was used.

    Processes can look starved by what they do to each other. So a busy loop of this process decides: the
    share of a processor that it gets while they are stopped is what a thread that never slept would have had.
    ``still`` stops those that have not ended.
    """
    if charged_s >= _ENOUGH * time_s:
        return False
    with still():
        time.sleep(_PAUSE_S)
        share = share_of_processor()
    return share * wall_timeout_s < _ENOUGH * time_s
