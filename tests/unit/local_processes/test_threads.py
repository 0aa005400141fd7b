"""Work beside the main thread."""

import os
import signal
import threading

import pytest

from local_processes.threads import apart


def test_the_work_is_not_in_the_main_thread_and_its_outcome_is_the_callers():
    assert apart(threading.current_thread) is not threading.main_thread()


def test_an_error_of_the_work_is_the_callers():
    def work():
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        apart(work)


def test_ctrl_c_is_answered_while_the_work_goes_on():
    over = threading.Event()

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        over.wait()

    with pytest.raises(KeyboardInterrupt):
        apart(work)
    over.set()
