"""Freeze the date of a world's process for AppWorld, while the clocks that measure durations run on.

AppWorld freezes time with freezegun, in the whole process. Patching every module takes long, so it is done
once, before any fork: a freezer of ours is held from then on, and those of AppWorld only push a time upon
it. Our own modules are left out, and the clocks that measure durations are given back at once: deadlines
need them, and nothing of AppWorld reads them.
"""

from __future__ import annotations

import time

import freezegun

_DURATIONS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


def hold_clock(moment: str) -> object:
    """Freeze the date of this process and of its forks; return the freezer, whose owner keeps it."""
    running = {name: getattr(time, name) for name in _DURATIONS}
    freezegun.configure(extend_ignore_list=["sandbox_service"])
    freezer = freezegun.freeze_time(moment)
    freezer.start()
    for name, function in running.items():
        setattr(time, name, function)
    return freezer
