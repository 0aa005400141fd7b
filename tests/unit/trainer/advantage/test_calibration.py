"""Figures of reward models on numbers worked out by hand."""

import numpy as np
import pytest

from trainer.advantage.calibration import calibration_error, pair_quality, step_quality

LOGIT_3_OF_4 = float(np.log(3))
"""The output whose probability is three quarters."""


def test_a_tie_is_half_right() -> None:
    found = pair_quality(np.array([1.0, 0.0, 2.0, 0.0]), np.array([0.0, 1.0, 2.0, -1.0]))
    assert (found.pairs, found.accuracy, found.margin) == (4, 0.625, 0.25)


def test_a_model_that_is_right_as_often_as_it_says_is_calibrated() -> None:
    # Says three quarters each time, and is right three times out of four.
    leads = np.array([LOGIT_3_OF_4] * 3 + [-LOGIT_3_OF_4])
    found = pair_quality(leads, np.zeros(4))
    assert found.calibration_error == pytest.approx(0.0)
    assert found.brier == pytest.approx((3 * 0.25**2 + 0.75**2) / 4)
    overconfident = pair_quality(10 * leads, np.zeros(4))
    assert overconfident.accuracy == found.accuracy
    assert overconfident.calibration_error == pytest.approx(0.25, abs=1e-4)


def test_bins_weigh_by_their_number_of_predictions() -> None:
    # 0.95 right once of two (gap 0.45), 0.15 right never (gap 0.15).
    found = calibration_error(np.array([0.95, 0.95, 0.15, 0.15]), np.array([1.0, 0.0, 0.0, 0.0]))
    assert found == pytest.approx((2 * 0.45 + 2 * 0.15) / 4)


def test_steps_with_an_unknown_or_even_label_are_no_evidence_of_accuracy() -> None:
    outputs, labels = np.array([2.0, -2.0, 2.0, 1.0]), np.array([1.0, 0.75, 0.5, np.nan])
    found = step_quality(outputs, labels)
    assert found is not None
    assert (found.steps, found.accuracy) == (3, 0.5)
    assert step_quality(outputs, np.full(4, np.nan)) is None


def test_without_pairs_there_is_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        pair_quality(np.zeros(0), np.zeros(0))
