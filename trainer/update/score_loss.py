"""The loss of a batch that trains a reward model, from the derivatives of a loss over its scores.

A loss L of the scores s_1..s_N of the sequences of a batch has the gradient sum_i (dL / ds_i) grad s_i. The
credit has put -dL / ds_i on the token at which sequence i is scored, so that the sum below has exactly that
gradient, however rows are split over micro-batches and ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .objective import LossInputs, ObjectiveOutput

if TYPE_CHECKING:
    from torch import Tensor

    from .model import TokenOutputs


def score_loss(outputs: TokenOutputs, inputs: LossInputs, weights_1K: Tensor) -> ObjectiveOutput:
    """Return the sum of scores weighted by their negative advantages; its value means nothing.

    Raises ValueError for a model without a head.
    """
    if outputs.values_K is None:
        raise ValueError("the model has no head to score with")
    counted_1K = inputs.mask_BT & (weights_1K > 0)
    slopes_1K = (inputs.advantages_BT * weights_1K).masked_fill(~counted_1K, 0.0)
    loss = -(outputs.values_K[None] * slopes_1K).sum()
    # DDP waits for the gradients of all parameters, those of the output layer included.
    loss = loss + 0.0 * outputs.logprobs_K.sum()
    return ObjectiveOutput(loss, {}, {"tokens": counted_1K.float().sum()})
