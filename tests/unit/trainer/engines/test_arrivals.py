"""A step with few sequences waits for those that are coming, and not for long."""

import pytest

from trainer.engines.arrivals import LONGEST_S, WINDOW_S, Arrivals


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def busy(clock):
    """An engine that has just run 128 sequences."""
    arrivals = Arrivals(clock)
    arrivals.stepped(128)
    return arrivals


def test_a_single_caller_never_waits(clock):
    arrivals = Arrivals(clock)
    for _ in range(3):
        arrivals.came()
        assert arrivals.pause_s(1) == 0
        arrivals.stepped(1)


def test_the_first_of_many_waits_while_others_come(busy, clock):
    busy.came()
    assert busy.pause_s(1) == pytest.approx(WINDOW_S)
    clock.now += 0.03
    busy.came()
    assert busy.pause_s(2) == pytest.approx(WINDOW_S)


def test_a_quarter_of_what_ran_lately_is_enough(busy):
    busy.came()
    assert busy.pause_s(31) > 0
    assert busy.pause_s(32) == 0


def test_when_nothing_comes_the_last_few_are_not_held_up(busy, clock):
    busy.came()
    clock.now += WINDOW_S
    assert busy.pause_s(1) == 0


def test_a_trickle_holds_a_step_up_for_so_long_and_no_longer(busy, clock):
    waited = 0.0
    while True:
        busy.came()
        if not (pause := busy.pause_s(1)):
            break
        clock.now += min(pause, 0.01)
        waited += min(pause, 0.01)
    assert waited == pytest.approx(LONGEST_S)
    busy.stepped(1)
    busy.came()
    assert busy.pause_s(1) > 0


def test_what_ran_long_ago_is_forgotten(busy):
    for _ in range(3000):
        busy.stepped(1)
    busy.came()
    assert busy.pause_s(1) == 0
