import queue
import threading

import pytest

from local_processes.wait_report import EVERY_S, WaitReport
from tests.fakes.clock import FakeClock

LONGEST_S = 60.0


class Intervals(threading.Event):
    """An event whose waits pass when the test says so, and with them the time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self._began: queue.Queue[float | None] = queue.Queue()
        self._over: queue.Queue[bool] = queue.Queue()

    def wait(self, timeout: float | None = None) -> bool:
        self._began.put(timeout)
        return self._over.get(timeout=LONGEST_S)

    def set(self) -> None:
        super().set()
        self._over.put(True)

    def pass_one(self) -> None:
        """Let an interval pass, and return when the next has begun."""
        seconds = self._began.get(timeout=LONGEST_S)
        assert seconds is not None
        self.clock.advance(seconds)
        self._over.put(False)
        self._began.put(self._began.get(timeout=LONGEST_S))


def test_a_line_every_ten_seconds_says_what_is_waited_for_until_the_end() -> None:
    intervals, lines = Intervals(), list[str]()
    with WaitReport(lines.append, "Ray", ended=intervals, clock=intervals.clock.monotonic) as waits:
        intervals.pass_one()
        intervals.pass_one()
        waits.wait_for("the gateway")
        intervals.pass_one()
        waits.end_report()
    assert EVERY_S == 10
    assert lines == ["10 s: waiting for Ray", "20 s: waiting for Ray", "30 s: waiting for the gateway"]


def test_a_start_that_fails_ends_the_report() -> None:
    intervals, lines = Intervals(), list[str]()
    with (
        pytest.raises(RuntimeError, match="no Ray"),
        WaitReport(lines.append, "Ray", ended=intervals, clock=intervals.clock.monotonic),
    ):
        raise RuntimeError("no Ray")
    assert intervals.is_set()
    assert lines == []
