from itertools import combinations

import numpy as np
import pytest

from trainer.errors import ConfigError
from trainer.evaluate.pass_at import pass_at_k


@pytest.mark.parametrize("episodes", range(1, 7))
def test_the_estimate_is_the_share_of_subsets_with_a_solved_episode(episodes):
    for successes in range(episodes + 1):
        solved = [place < successes for place in range(episodes)]
        for k in range(1, episodes + 1):
            subsets = list(combinations(solved, k))
            expected = sum(map(any, subsets)) / len(subsets)
            assert pass_at_k(episodes, successes, k) == pytest.approx(expected)


def test_pass_at_1_is_the_success_rate():
    assert pass_at_k(200, 37, 1) == pytest.approx(37 / 200)


def test_the_estimate_is_unbiased():
    random = np.random.default_rng(0)
    drawn = random.binomial(10, 0.3, size=20_000)
    estimates = [pass_at_k(10, int(successes), 4) for successes in drawn]
    assert np.mean(estimates) == pytest.approx(1 - 0.7**4, abs=0.01)


@pytest.mark.parametrize("k", [0, 5])
def test_a_k_that_there_are_no_episodes_for_is_refused(k):
    with pytest.raises(ConfigError, match=f"pass@{k} needs"):
        pass_at_k(4, 2, k)
