"""A pytest plugin that writes each event to the file TEST_LEDGER at once, for ``scripts/run_tests``.

pytest's own summary is lost when the process dies. The lines of the file are not, and the last one names the
test that was running.
"""

import json
import os

# Unbuffered, and open for as long as the process lives: a line is in the file when ``note`` returns.
_FILE = os.open(os.environ.get("TEST_LEDGER", os.devnull), os.O_WRONLY | os.O_APPEND)


_SECONDS = {}


def note(event, test="", **more):
    os.write(_FILE, json.dumps({"event": event, "test": test, **more}).encode() + b"\n")


def pytest_collectreport(report):
    if report.failed:
        note("failed", report.nodeid)
    elif report.skipped:
        note("skipped", report.nodeid)


def pytest_runtest_logstart(nodeid):
    note("start", nodeid)


def pytest_runtest_logreport(report):
    """One outcome for each test: a set-up or clean-up counts only when it is more than passed."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if report.when == "call" or report.outcome != "passed":
        expected = hasattr(report, "wasxfail") and report.outcome == "skipped"
        note("passed" if expected else report.outcome, report.nodeid)


def pytest_runtest_logfinish(nodeid):
    note("end", nodeid, seconds=f"{_SECONDS.pop(nodeid, 0.0):.1f}")


def pytest_sessionfinish():
    note("finished")
