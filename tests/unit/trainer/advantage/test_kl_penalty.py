"""KL to the reference, token by token."""

import math

import numpy as np
import pytest

from tests.support.samples import sample
from trainer.advantage.kl_penalty import penalised, sequence_kl, token_kl


def test_estimators_by_hand_and_only_where_sampled() -> None:
    mine = sample("0.0", [-1, 0, 0], [0, 0, 1], old=[5, -1, -2], ref=[0, -2, -2])
    assert token_kl(mine, "k1") == pytest.approx([0, 1, 0])
    assert token_kl(mine, "k2") == pytest.approx([0, 0.5, 0])
    assert token_kl(mine, "k3") == pytest.approx([0, math.exp(-1), 0])
    assert penalised(mine, "k1", 0.1) == pytest.approx([0, -0.1, 1])


def test_k3_of_policies_far_apart_is_finite() -> None:
    mine = sample("0.0", [-1, 0, 0], [0, 0, 0], old=[0, -500, -np.inf], ref=[0, 0, -np.inf])
    assert np.isfinite(token_kl(mine, "k3")).all()


def test_the_kl_of_sequences_is_a_mean_of_sums_over_those_that_count() -> None:
    rows = [
        sample("0.0", [-1, 0, 0], [0, 0, 0], old=[0, -1, -1], ref=[0, -2, -2]),
        sample("0.1", [-1, 0], [0, 0], old=[0, -1], ref=[0, -1]),
        sample("0.2", [-1, 0], [0, 0], old=[0, -1], ref=[0, -9], weight=0.0),
    ]
    assert sequence_kl(rows) == pytest.approx(1.0)
    assert sequence_kl([]) == 0.0
