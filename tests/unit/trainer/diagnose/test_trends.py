import math

import numpy as np
import pytest

from trainer.diagnose.record import trend_of


def test_a_trend_compares_the_first_and_the_last_quarter():
    trend = trend_of([0.0] * 4 + [0.5] * 8 + [1.0] * 4)
    assert (trend.early, trend.late, trend.best) == (0.0, 1.0, 1.0)
    assert trend.rises


def test_noise_is_no_rise():
    random = np.random.default_rng(0)
    rises = [trend_of(random.normal(0.5, 0.1, 40)).rises for _ in range(300)]
    assert np.mean(rises) < 0.05


def test_a_rise_is_no_noise():
    steady = trend_of(np.linspace(0, 1, 24))
    assert steady.error == pytest.approx(0.0, abs=1e-9)
    noisy = trend_of(np.linspace(0, 1, 24) + np.random.default_rng(1).normal(0, 0.05, 24))
    assert noisy.error == pytest.approx(0.05 * math.sqrt(2 / 6), rel=0.5)


def test_values_that_are_not_finite_and_short_runs_have_no_trend():
    assert trend_of([1.0] * 7 + [math.nan] * 9) is None
