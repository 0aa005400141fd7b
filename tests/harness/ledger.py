"""A pytest plugin that writes each event to the file TEST_LEDGER at once, for ``scripts/run_tests``.

pytest's own summary is lost when the process dies. The lines of the file are not, and the last one names the
test that was running.
"""

import json
import os
import resource

# Unbuffered, and open for as long as the process lives: a line is in the file when ``note`` returns.
_FILE = os.open(os.environ.get("TEST_LEDGER", os.devnull), os.O_WRONLY | os.O_APPEND)


_SECONDS = {}
_CPU_SECONDS = {}


def note(event, test="", **more):
    os.write(_FILE, json.dumps({"event": event, "test": test, **more}).encode() + b"\n")


def pytest_collectreport(report):
    if report.failed:
        note("failed", report.nodeid)
    elif report.skipped:
        note("skipped", report.nodeid)


def cpu_seconds():
    """Return the CPU time of this process and of the descendants that were waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pytest_runtest_logstart(nodeid):
    _CPU_SECONDS[nodeid] = cpu_seconds()
    note("start", nodeid)


def pytest_runtest_logreport(report):
    """One outcome for each test: a set-up or clean-up counts only when it is more than passed."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if report.when == "call" or report.outcome != "passed":
        expected = hasattr(report, "wasxfail") and report.outcome == "skipped"
        note("passed" if expected else report.outcome, report.nodeid)


def pytest_runtest_logfinish(nodeid):
    cpu = cpu_seconds() - _CPU_SECONDS.pop(nodeid)
    note("end", nodeid, seconds=f"{_SECONDS.pop(nodeid, 0.0):.1f}", cpu_seconds=f"{cpu:.1f}")


def pytest_sessionfinish():
    note("finished")
