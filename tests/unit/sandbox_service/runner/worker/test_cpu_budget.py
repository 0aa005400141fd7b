"""CPU time that a piece of work may take."""

from __future__ import annotations

import contextlib
import re
import signal
import time

import pytest

from sandbox_service.runner.worker.cpu_budget import OverBudget, cpu_budget


def spin() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.process_time()


def test_work_within_the_budget_is_left_alone() -> None:
    with cpu_budget(60):
        time.sleep(0.01)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.parametrize(
    "work", [spin, lambda: re.match(r"(a*)*b", "a" * 40), lambda: 3**10**9], ids=["loop", "pattern", "number"]
)
def test_work_over_the_budget_is_stopped_even_if_it_catches_exceptions(work) -> None:
    with pytest.raises(OverBudget), cpu_budget(0.05):
        work()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_work_that_catches_the_first_stop_gets_another() -> None:
    stops = 0

    def stubborn() -> None:
        nonlocal stops
        while stops < 2:
            try:
                spin()
            except BaseException:  # noqa: BLE001  # what foreign code may do
                stops += 1
        spin()

    with pytest.raises(OverBudget), cpu_budget(0.05):
        stubborn()
    assert stops == 2


def test_an_inner_budget_leaves_the_outer_one_as_it_was() -> None:
    inner = False

    def twice() -> None:
        nonlocal inner
        try:
            with cpu_budget(0.01):
                spin()
        except OverBudget:
            inner = True
        spin()

    with pytest.raises(OverBudget), cpu_budget(0.2):
        twice()
    assert inner
