from __future__ import annotations

import os
import signal
import threading

import pytest

from local_processes.signals import Phase, SignalDesk


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_undoes_a_start(number):
    desk = SignalDesk()
    with desk.open(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_a_running_service_to_stop(number):
    desk = SignalDesk()
    with desk.open():
        desk.enter(Phase.RUNNING)
        os.kill(os.getpid(), number)
        assert desk.stopping.wait(5)


def test_a_second_signal_does_not_disturb_the_end():
    desk = SignalDesk()
    with desk.open():
        desk.enter(Phase.STOPPING)
        os.kill(os.getpid(), signal.SIGINT)
        assert desk.stopping.wait(5)


def test_a_signal_while_a_start_is_undone_raises_once_only():
    desk = SignalDesk()
    with desk.open():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert desk.stopping.wait(5)


def test_the_handlers_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    desk = SignalDesk()
    with desk.open():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        desk.enter(Phase.RUNNING)
        assert signal.getsignal(signal.SIGTERM) == desk._handle
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere() -> None:
        desk = SignalDesk()
        with desk.open():
            desk.enter(Phase.RUNNING)
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]
