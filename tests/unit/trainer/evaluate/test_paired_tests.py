import numpy as np
import pytest

from trainer.evaluate.paired_tests import holm, sign_test


@pytest.mark.parametrize(
    ("wins", "losses", "expected"),
    [(9, 1, 0.021484375), (1, 9, 0.021484375), (15, 4, 0.0192108154296875), (0, 0, 1.0), (5, 5, 1.0)],
)
def test_the_p_value_is_that_of_the_exact_binomial_test(wins, losses, expected):
    """``scipy.stats.binomtest(wins, wins + losses).pvalue`` of scipy 1.16.3."""
    assert sign_test(wins, losses) == pytest.approx(expected, rel=1e-12)


def test_true_hypotheses_are_rejected_no_more_often_than_the_level():
    random = np.random.default_rng(0)
    draws = random.binomial(40, 0.5, size=4_000)
    assert np.mean([sign_test(int(wins), 40 - int(wins)) < 0.05 for wins in draws]) <= 0.05


def test_holms_values_are_those_of_the_step_down_method():
    """``statsmodels.stats.multitest.multipletests(p, method="holm")`` gives the same."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()
