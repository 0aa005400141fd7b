"""KL to the reference, token by token."""

import math

import numpy as np
import pytest

from tests.harness.samples import sample
from trainer.advantage.kl_penalty import penalised, token_kl


def test_estimators_by_hand_and_only_where_sampled() -> None:
    mine = sample("0.0", [-1, 0, 0], [0, 0, 1], old=[5, -1, -2], ref=[0, -2, -2])
    assert token_kl(mine, "k1") == pytest.approx([0, 1, 0])
    assert token_kl(mine, "k2") == pytest.approx([0, 0.5, 0])
    assert token_kl(mine, "k3") == pytest.approx([0, math.exp(-1), 0])
    assert penalised(mine, "k1", 0.1) == pytest.approx([0, -0.1, 1])


def test_k3_of_policies_far_apart_is_finite() -> None:
    mine = sample("0.0", [-1, 0, 0], [0, 0, 0], old=[0, -500, -np.inf], ref=[0, 0, -np.inf])
    assert np.isfinite(token_kl(mine, "k3")).all()
