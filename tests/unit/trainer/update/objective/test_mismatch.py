"""Weights for engine and learner disagreeing, and how far they are apart."""

import math

import numpy as np
import pytest
import torch

from tests.harness.samples import sample
from trainer.config.algorithm import MismatchConfig
from trainer.update.objective import mismatch_metrics
from trainer.update.objective.mismatch import correction

LOG = math.log
# Ratios 1, 3, 0.25 and one outside of the mask.
OLD = torch.tensor([[-1.0, -1.0, -1.0 - LOG(4), -1.0]])
SAMPLING = torch.tensor([[-1.0, -1.0 - LOG(3), -1.0, -9.0]])
MASK = torch.tensor([[1, 1, 1, 0]]) > 0


def weights(**settings: object) -> list[float]:
    return correction(OLD, SAMPLING, MASK, MismatchConfig(**settings)).weights_BT[0, :3].tolist()


def test_truncation_bounds_ratios_from_above_only() -> None:
    assert weights(mode="truncate", cap=2.0) == pytest.approx([1, 2, 0.25])


def test_masking_drops_ratios_out_of_bounds_on_either_side() -> None:
    assert weights(mode="mask", cap=2.0, floor=0.5) == pytest.approx([1, 0, 0])
    assert weights(mode="mask", cap=4.0, floor=0.2) == pytest.approx([1, 3, 0.25])


def test_off_weighs_everything_alike() -> None:
    assert weights(mode="off") == [1, 1, 1]


def test_a_sequence_has_the_product_of_its_tokens_ratios() -> None:
    assert weights(mode="truncate", level="sequence", cap=2.0) == pytest.approx([0.75] * 3)


def test_packed_sequences_have_ratios_of_their_own() -> None:
    config = MismatchConfig(mode="truncate", level="sequence", cap=2.0)
    found = correction(OLD, SAMPLING, MASK, config, torch.tensor([[0, 0, 1, -1]]))
    assert found.weights_BT[0, :3].tolist() == pytest.approx([2, 2, 0.25])
    assert found.corrected_BT.tolist() == [[True, True, False, False]]


def test_what_was_corrected_is_told_within_the_mask_only() -> None:
    found = correction(OLD, SAMPLING, MASK, MismatchConfig(mode="mask", cap=2.0, floor=0.5))
    assert found.corrected_BT.tolist() == [[False, True, True, False]]


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("missing", [float("nan"), -math.inf, math.inf])
def test_weights_are_finite_whatever_the_engine_said(level: str, missing: float) -> None:
    sampling = torch.tensor([[missing, -1.0, -1.0, missing]])
    for mode in ("truncate", "mask"):
        found = correction(OLD, sampling, MASK, MismatchConfig(mode=mode, level=level))
        assert found.weights_BT.isfinite().all()


def test_weights_have_no_gradient() -> None:
    old = OLD.clone().requires_grad_()
    assert not correction(old, SAMPLING, MASK, MismatchConfig()).weights_BT.requires_grad


def test_metrics_by_hand() -> None:
    rows = [
        sample("0.0", [-1, 0, 0], [0] * 3, old=[7, -1, -1], sampling=[0, -1, -1 - LOG(3)]),
        sample("0.1", [-1, 0], [0] * 2, old=[0, -1 - LOG(4)], sampling=[0, -1]),
        sample("0.2", [-1, 0], [0] * 2, old=[0, -50], sampling=[0, -1], weight=0.0),
    ]
    found = mismatch_metrics(rows, MismatchConfig(mode="truncate", cap=2.0))
    # k3 of KL(engine | learner) is r - 1 - log r at r = 1, 3 and 1/4.
    assert found["mismatch/kl"] == pytest.approx((0 + 2 - LOG(3) - 0.75 + LOG(4)) / 3, rel=1e-5)
    assert found["mismatch/max"] == pytest.approx(LOG(4), rel=1e-5)
    assert found["mismatch/share"] == pytest.approx(1 / 3)
    assert found["mismatch/missing"] == 0
    assert found["mismatch/ratio_p50"] == pytest.approx(1)
    assert 0.25 <= found["mismatch/ratio_p01"] < 0.3
    assert 2.9 < found["mismatch/ratio_p99"] <= 3


def test_metrics_tell_of_log_probabilities_that_are_not_numbers() -> None:
    rows = [sample("0.0", [-1, 0, 0], [0] * 3, old=[0, -1, -1], sampling=[0, -1, np.nan])]
    found = mismatch_metrics(rows, MismatchConfig())
    assert found["mismatch/missing"] == 0.5
    assert all(math.isfinite(value) for value in found.values())


def test_metrics_of_nothing_have_the_same_names() -> None:
    rows = [sample("0.0", [-1, 0], [0] * 2, old=[0, -1])]
    silent = [sample("0.1", [-1, -1], [0] * 2)]
    assert set(mismatch_metrics(silent, MismatchConfig())) == set(mismatch_metrics(rows, MismatchConfig()))


def test_metrics_need_the_learner() -> None:
    with pytest.raises(ValueError, match=r"0\.0 has no log-probabilities"):
        mismatch_metrics([sample("0.0", [-1, 0], [0] * 2)], MismatchConfig())
