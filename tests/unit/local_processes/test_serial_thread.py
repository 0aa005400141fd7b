"""Calls one after another in a thread that may be left behind."""

import subprocess
import sys
import threading

import pytest

from local_processes.serial_thread import SerialThread

_LEAVING = """
import threading
from local_processes.serial_thread import SerialThread

begun = threading.Event()
thread = SerialThread("work")
thread.submit(begun.set)
thread.submit(threading.Event().wait)
begun.wait()
"""


def test_calls_are_made_in_their_order_in_one_thread_and_their_outcomes_are_their_callers() -> None:
    thread, made = SerialThread("work"), []
    held = threading.Event()
    first = thread.submit(held.wait)
    calls = [thread.submit(lambda each=each: made.append((each, threading.get_ident()))) for each in range(3)]
    failing = thread.submit(lambda: 1 / 0)
    assert calls[1].cancel()
    held.set()
    thread.end_thread()
    assert isinstance(failing.exception(60), ZeroDivisionError)
    assert first.result()
    assert [each for each, _ in made] == [0, 2]
    assert len({ident for _, ident in made} | {threading.get_ident()}) == 2


def test_a_call_after_the_end_is_refused() -> None:
    thread = SerialThread("work")
    thread.end_thread()
    thread.end_thread()
    with pytest.raises(RuntimeError, match="work: the thread has been ended"):
        thread.submit(list)


def test_a_call_that_never_returns_does_not_keep_the_process() -> None:
    left = subprocess.run([sys.executable, "-c", _LEAVING], capture_output=True, check=True, timeout=120)
    assert left.stderr == b""
