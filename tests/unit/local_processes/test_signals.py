from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from local_processes.signals import Phase, SignalHandlers, StopRequest

SIGNALS_WHILE_IT_WAITS = """
import signal
from local_processes.signals import StopRequest

for _ in range(200):
    request = StopRequest()
    signal.signal(signal.SIGALRM, lambda *_: request.set())
    signal.setitimer(signal.ITIMER_REAL, 0.0001)
    while not request.wait_for_request(0.0):
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_undoes_a_start(number):
    handlers = SignalHandlers()
    with handlers.open(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_a_running_service_to_stop(number):
    handlers = SignalHandlers()
    with handlers.open():
        handlers.enter(Phase.RUNNING)
        os.kill(os.getpid(), number)
        assert handlers.stopping.wait_for_request(5)


def test_a_second_signal_does_not_disturb_the_end():
    handlers = SignalHandlers()
    with handlers.open():
        handlers.enter(Phase.STOPPING)
        os.kill(os.getpid(), signal.SIGINT)
        assert handlers.stopping.wait_for_request(5)


def test_a_signal_while_a_start_is_undone_raises_once_only():
    handlers = SignalHandlers()
    with handlers.open():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert handlers.stopping.wait_for_request(5)


def test_the_handlers_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    handlers = SignalHandlers()
    with handlers.open():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        handlers.enter(Phase.RUNNING)
        os.kill(os.getpid(), signal.SIGTERM)
        assert handlers.stopping.wait_for_request(5)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere() -> None:
        handlers = SignalHandlers()
        with handlers.open():
            handlers.enter(Phase.RUNNING)
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_stop_may_be_requested_at_any_moment_of_a_wait():
    subprocess.run([sys.executable, "-c", SIGNALS_WHILE_IT_WAITS], check=True, timeout=60)


def test_a_requested_stop_ends_every_wait():
    request = StopRequest()
    assert (request.is_set(), request.wait_for_request(0.0)) == (False, False)
    request.set()
    request.set()
    assert [request.wait_for_request(), request.wait_for_request(0.0), request.is_set()] == [True, True, True]
