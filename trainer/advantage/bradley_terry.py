"""The loss of a reward model on pairs (Bradley and Terry 1952; Christiano et al. 2017,
https://arxiv.org/abs/1706.03741; Ouyang et al. 2022, https://arxiv.org/abs/2203.02155).

The probability that a completion is preferred is the logistic function of the difference of the two scores;
the loss is its negative logarithm, with an optional margin by which the preferred one has to lead (Touvron et
al. 2023, https://arxiv.org/abs/2307.09288) and an optional square of the scores' sum, which keeps them near 0
(Eisenstein et al. 2023, https://arxiv.org/abs/2312.09244). Left out: ties, and more than two completions at
once, which are pairs here; ``weights_P`` then gives each prompt the same weight, as Ouyang et al. do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


@dataclass(frozen=True, slots=True, eq=False)
class PairLoss:
    """The loss of P pairs and its derivatives by their scores."""

    loss: float
    by_chosen_P: Array
    by_rejected_P: Array


def bradley_terry(
    chosen_P: Array,
    rejected_P: Array,
    margins_P: Array | None = None,
    *,
    centering: float = 0.0,
    weights_P: Array | None = None,
) -> PairLoss:
    """Return the weighted mean over pairs of -log sigmoid(chosen - rejected - margin).

    Args:
        chosen_P: scores of the preferred completions.
        rejected_P: scores of the others.
        margins_P: the least difference of each pair; 0 by default.
        centering: coefficient of the mean square of the sum of a pair's scores.
        weights_P: weights of the pairs; equal by default.

    Raises ValueError without pairs, and for weights that sum to 0.
    """
    if not len(chosen_P):
        raise ValueError("the Bradley-Terry loss needs at least one pair")
    weights = np.ones(len(chosen_P)) if weights_P is None else weights_P
    total = float(weights.sum())
    if total <= 0:
        raise ValueError("the weights of the pairs sum to 0")
    shares_P = weights / total
    leads_P = chosen_P - rejected_P - (0.0 if margins_P is None else margins_P)
    sums_P = chosen_P + rejected_P
    losses_P = np.logaddexp(0.0, -leads_P) + centering * np.square(sums_P)
    # sigmoid(-lead), without an overflow at large leads
    doubt_P = np.exp(-np.logaddexp(0.0, leads_P))
    pull_P = 2.0 * centering * sums_P
    return PairLoss(
        loss=float((shares_P * losses_P).sum()),
        by_chosen_P=shares_P * (pull_P - doubt_P),
        by_rejected_P=shares_P * (pull_P + doubt_P),
    )
