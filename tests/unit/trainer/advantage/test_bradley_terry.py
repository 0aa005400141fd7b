"""The loss on pairs: by hand, beside TRL's, and its derivatives beside torch's."""

import numpy as np
import pytest
import torch

from tests.harness.trl_formulas import trl_reward_loss
from trainer.advantage.bradley_terry import bradley_terry

CHOSEN = [0.3, -1.2, 4.0, 0.0, -60.0]
REJECTED = [0.1, 0.7, -2.5, 0.0, 55.0]
MARGINS = [0.0, 0.5, 1.0, 0.25, 2.0]


def numbers(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_equal_scores_cost_one_bit() -> None:
    assert bradley_terry(numbers([2.0]), numbers([2.0])).loss == pytest.approx(np.log(2))


def test_a_margin_has_to_be_led_by() -> None:
    # A lead of 1 with a margin of 1 is as doubtful as a tie.
    found = bradley_terry(numbers([1.0]), numbers([0.0]), numbers([1.0]))
    assert found.loss == pytest.approx(np.log(2))
    assert (found.by_chosen_P[0], found.by_rejected_P[0]) == (pytest.approx(-0.5), pytest.approx(0.5))


@pytest.mark.parametrize("margins", [None, MARGINS], ids=["plain", "margins"])
@pytest.mark.parametrize("centering", [0.0, 0.01], ids=["free", "centred"])
def test_loss_and_derivatives_are_those_of_trl(margins: list[float] | None, centering: float) -> None:
    chosen, rejected = (
        torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (CHOSEN, REJECTED)
    )
    theirs = trl_reward_loss(
        chosen,
        rejected,
        None if margins is None else torch.tensor(margins, dtype=torch.float64),
        centering or None,
    )
    theirs.backward()
    ours = bradley_terry(
        numbers(CHOSEN),
        numbers(REJECTED),
        None if margins is None else numbers(margins),
        centering=centering,
    )
    assert ours.loss == pytest.approx(theirs.item(), rel=1e-12)
    assert ours.by_chosen_P == pytest.approx(chosen.grad.numpy(), abs=1e-12)
    assert ours.by_rejected_P == pytest.approx(rejected.grad.numpy(), abs=1e-12)


def test_weights_make_pairs_of_one_prompt_count_as_one() -> None:
    scores = numbers([1.0, 0.2, 0.4]), numbers([0.0, 0.5, -1.0])
    apart = [bradley_terry(each[None], other[None]).loss for each, other in zip(*scores, strict=True)]
    found = bradley_terry(*scores, weights_P=numbers([0.5, 0.5, 1.0]))
    assert found.loss == pytest.approx((0.5 * apart[0] + 0.5 * apart[1] + apart[2]) / 2)


def test_it_needs_pairs_with_a_weight() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        bradley_terry(numbers([]), numbers([]))
    with pytest.raises(ValueError, match="sum to 0"):
        bradley_terry(numbers([1.0]), numbers([0.0]), weights_P=numbers([0.0]))
