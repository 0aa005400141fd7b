"""A pytest plugin that ends a process whose test goes on long after its timeout, for ``scripts/run_tests``.

pytest-timeout raises an exception in the test once. Clean-up that waits without a limit, as that of
``subprocess.Popen`` does, swallows it, and the run would go on until CI ends it without a report.
"""

import faulthandler
import os

import pytest

# pytest redirects the descriptor 2 while it captures.
_ERRORS = os.dup(2)
_CLEAN_UP_S = float(os.environ.get("TEST_CLEAN_UP_S", "120"))
"""Seconds that a test may go on after its timeout."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Print where each thread is, and end the process, if the test does not end."""
    limit_s = _timeout(item)
    if limit_s > 0:
        faulthandler.dump_traceback_later(limit_s + _CLEAN_UP_S, exit=True, file=_ERRORS)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _timeout(item):
    """Return the test's timeout in seconds, 0 if it has none."""
    if (marker := item.get_closest_marker("timeout")) is not None:
        return float(marker.kwargs.get("timeout", *marker.args))
    given = item.config.getoption("timeout", None)
    return float(given if given is not None else item.config.getini("timeout") or 0)
