import numpy as np
import pytest

from trainer.evaluate.intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_ratios,
    equal_tasks_interval,
    success_interval,
    wilson,
)


def column(*values):
    return np.array(values, dtype=np.float64)


def test_the_bootstrap_agrees_with_the_standard_error_of_a_mean():
    values = np.random.default_rng(1).normal(10, 2, size=400)
    interval = bootstrap_interval(values, np.ones(400))
    half = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)


def test_correlated_episodes_of_a_task_do_not_narrow_the_interval():
    """Eight episodes that are all alike say no more about the tasks than one."""
    one = success_interval(column(*[1, 0] * 20), np.ones(40))
    eight = success_interval(column(*[8, 0] * 20), np.full(40, 8.0))
    assert (eight.low, eight.high) == pytest.approx((one.low, one.high))
    assert wilson(160, 320).low > eight.low


def test_without_any_difference_between_tasks_the_interval_still_has_a_width():
    assert success_interval(column(0, 0, 0), column(4, 4, 4)) == wilson(0, 3)
    assert success_interval(column(4, 4, 4), column(4, 4, 4)) == wilson(3, 3)
    others = wilson(0, 3).high
    assert success_interval(column(1, 2, 3), column(4, 8, 12)) == equal_tasks_interval(0.25, 3, least=0.0)
    assert equal_tasks_interval(0.25, 3, least=0.0) == Interval(
        pytest.approx(0.25 * (1 - others)), pytest.approx(0.25 + 0.75 * others)
    )


def test_one_task_says_little_of_others():
    one = success_interval(column(5), column(8))
    assert (one.low, one.high) == pytest.approx((0.129, 0.923), abs=0.001)


def test_rounding_sets_no_tasks_apart():
    assert success_interval(column(0.1 + 0.2, 0.3), column(1, 1)).low < 0.11


def test_without_tasks_nothing_is_known():
    assert success_interval(column(), column()) == Interval(0.0, 1.0)


def test_the_same_seed_draws_the_same_tasks_in_blocks_too():
    totals = np.random.default_rng(2).random((3_000, 2))
    counts = np.ones((3_000, 2))
    drawn = bootstrap_ratios(totals, counts, draws=1_500, seed=3)
    assert drawn.shape == (1_500, 2)
    assert (drawn == bootstrap_ratios(totals, counts, draws=1_500, seed=3)).all()


def test_columns_share_their_draws():
    totals = np.random.default_rng(2).random((30, 1))
    drawn = bootstrap_ratios(np.hstack([totals, totals + 1]), np.ones((30, 2)), draws=100)
    assert np.allclose(drawn[:, 1] - drawn[:, 0], 1.0)
