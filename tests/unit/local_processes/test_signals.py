from __future__ import annotations

import os
import signal
import threading

import pytest

from local_processes.signals import Phase, SignalHandlers


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
        assert handlers.stopping.wait(5)


def test_a_second_signal_does_not_disturb_the_end():
    handlers = SignalHandlers()
    with handlers.open():
        handlers.enter(Phase.STOPPING)
        os.kill(os.getpid(), signal.SIGINT)
        assert handlers.stopping.wait(5)


def test_a_signal_while_a_start_is_undone_raises_once_only():
    handlers = SignalHandlers()
    with handlers.open():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert handlers.stopping.wait(5)


def test_the_handlers_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    handlers = SignalHandlers()
    with handlers.open():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        handlers.enter(Phase.RUNNING)
        os.kill(os.getpid(), signal.SIGTERM)
        assert handlers.stopping.wait(5)
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
