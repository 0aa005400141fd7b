"""CPU budget: stops a piece of work in this process after so much CPU time, without ending the process.

A worker that many instances share must not be killed for one of them, and wall time says nothing on a busy
machine. The budget reaches all Python code and its regular expressions, which look for signals as they run; a
library call that never does is left to the runner, which kills the worker at the deadline.
"""

from __future__ import annotations

import contextlib
import functools
import signal
from collections.abc import Iterator
from typing import NoReturn

_AGAIN_S = 0.1
"""CPU time after which the work is stopped once more, should it have caught the first exception."""


class OverBudget(BaseException):
    """The CPU time is used up. No Exception: foreign code that catches all of those is to be stopped, too."""


@contextlib.contextmanager
def cpu_budget(seconds: float) -> Iterator[None]:
    """Raise OverBudget in the block once this process has used so much CPU time in it. Main thread only.

    Catch it outside the block. A budget within another one has the first say and pauses the outer one.
    """
    _listen()
    outer = signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, *outer)


@functools.cache
def _listen() -> None:
    """Install the handler, once a process and its forks: it costs more than the timers of a step."""
    signal.signal(signal.SIGPROF, _stop)


def _stop(*_: object) -> NoReturn:
    raise OverBudget
