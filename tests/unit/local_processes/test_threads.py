"""Calls in a thread, beside a caller that may stop waiting."""

import asyncio
import os
import signal
import threading

import pytest

from local_processes.threads import AbandonedError, await_in_thread, run_in_thread


def test_the_work_is_not_in_the_main_thread_and_its_outcome_is_the_callers():
    assert run_in_thread(threading.current_thread, name="work") is not threading.main_thread()


def test_an_error_of_the_work_is_the_callers():
    def work():
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        run_in_thread(work, name="work", timeout_s=60)


def test_ctrl_c_is_answered_while_the_work_goes_on():
    over = threading.Event()

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        over.wait()

    with pytest.raises(KeyboardInterrupt):
        run_in_thread(work, name="work")
    over.set()


def test_work_that_passes_its_deadline_is_left_behind():
    over = threading.Event()
    with pytest.raises(AbandonedError, match=r"sending the weights did not end within 0\.05 s"):
        run_in_thread(over.wait, name="sending the weights", timeout_s=0.05)
    over.set()


def test_work_that_is_no_longer_worth_waiting_for_is_left_behind():
    over = threading.Event()
    looks = iter([True, False])
    with pytest.raises(AbandonedError, match="take down: what it waits for is gone"):
        run_in_thread(over.wait, name="take down", worth_waiting=lambda: next(looks))
    over.set()


async def test_work_that_is_awaited_has_its_outcome_and_may_be_left_behind():
    assert await await_in_thread(threading.current_thread, name="work") is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await await_in_thread(lambda: 1 / 0, name="work")
    over, left = threading.Event(), threading.Event()

    def work():
        over.wait()
        left.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await await_in_thread(work, name="work")
    over.set()
    assert await asyncio.to_thread(left.wait, 60)
