"""Sets hypothesis's profile, explains the assertions of the conformance suite, and lets Ctrl-C be tested.

A property is checked without a look at the clock, and with the same examples in each run: a test fails for
what the product does, and not because the machine is busy. ``pytest --hypothesis-profile=searching`` draws
new examples in each run.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# The conformance suite's assertions explain themselves as those of test files do.
pytest.register_assert_rewrite("sandbox_conformance")

settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("searching"), derandomize=True)
settings.load_profile("repeatable")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it runs in the background so, and every process that a test starts would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
