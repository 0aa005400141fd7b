"""Guards against exploitation, on numbers worked out by hand."""

import numpy as np
import pytest

from trainer.reward_models.guards import AgreementAlarm, ComparedStep, pessimistic, rank_correlation

MEMBERS = [np.array([1.0, 2.0]), np.array([1.0, 6.0])]


@pytest.mark.parametrize(("bound", "expected"), [("mean", [1, 4]), ("min", [1, 2]), ("deviations", [1, 1])])
def test_an_ensemble_that_agrees_is_believed(bound, expected) -> None:
    # Means 1 and 4, standard deviations over the members 0 and 2.
    assert pessimistic(MEMBERS, bound, 1.5).tolist() == expected


def test_ranks_correlate_by_order_and_not_by_size() -> None:
    order = [float(each) for each in range(10)]
    assert rank_correlation(order, [each**9 for each in order]) == pytest.approx(1)
    assert rank_correlation(order, [-each for each in order]) == pytest.approx(-1)
    # Ties have their mean rank: 0.5 and 2.5, each four times, against 0..7 in halves.
    assert rank_correlation([0, 0, 0, 0, 1, 1, 1, 1], list(range(8))) == pytest.approx(np.sqrt(16 / 21))


def test_too_few_or_equal_values_have_no_order() -> None:
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None
    assert rank_correlation([1.0] * 9, list(range(9))) is None


def test_an_alarm_needs_a_full_window_of_low_correlation() -> None:
    alarm = AgreementAlarm(window=3, least_correlation=0.2)
    low = ComparedStep(0.0, 0.0, 0.1)
    assert [alarm.add(low), alarm.add(low)] == [None, None]
    assert "0.10, below 0.2" in alarm.add(low)
    assert alarm.add(ComparedStep(0.0, 0.0, 0.9)) is None


def test_a_learned_reward_that_rises_while_the_true_one_falls_is_an_alarm() -> None:
    def alarms(learned, true):
        alarm = AgreementAlarm(window=8, least_correlation=-1.0)
        steps = [ComparedStep(*each, 0.5) for each in zip(learned, true, strict=True)]
        return [alarm.add(step) for step in steps][-1]

    rising, falling = np.linspace(0, 1, 8), np.linspace(1, 0, 8)
    noise = [0.5, 0.6, 0.4, 0.5, 0.6, 0.4, 0.55, 0.45]
    assert "rose over 8 steps while the true one fell" in alarms(rising, falling)
    assert alarms(rising, rising) is None
    assert alarms(rising, noise) is None
    assert alarms(falling, falling) is None
