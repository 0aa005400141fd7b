"""A pytest plugin that writes each event to the file TEST_LEDGER at once, for ``scripts/run_tests.py``.

pytest's own summary is lost when the process dies. The lines of the file are not, and the last one names the
test that was running.
"""

import json
import os
from pathlib import Path

FILE = os.environ.get("TEST_LEDGER", os.devnull)


def note(event, test=""):
    with Path(FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, "test": test}) + "\n")


def pytest_collectreport(report):
    if report.failed:
        note("failed", report.nodeid)
    elif report.skipped:
        note("skipped", report.nodeid)


def pytest_runtest_logstart(nodeid):
    note("start", nodeid)


def pytest_runtest_logreport(report):
    """One outcome for each test: a set-up or clean-up counts only when it is more than passed."""
    if report.when == "call" or report.outcome != "passed":
        expected = hasattr(report, "wasxfail") and report.outcome == "skipped"
        note("passed" if expected else report.outcome, report.nodeid)


def pytest_runtest_logfinish(nodeid):
    note("end", nodeid)


def pytest_sessionfinish():
    note("finished")
