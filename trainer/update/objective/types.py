"""Inputs and outputs of a loss.

A micro-batch is padded (one sequence a row) or packed (several in a row, as in ``sequences_BT``). Every
array has shape (B, T) and is aligned with the tokens: entry t belongs to token t, given those before it.
Values outside of the mask are ignored and may be anything, NaN included.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class LossInputs:
    """One micro-batch."""

    logprobs_BT: Tensor
    """The model's log-probabilities, with gradient."""
    old_logprobs_BT: Tensor
    """The model's log-probabilities before the batch's first update."""
    sampling_logprobs_BT: Tensor
    """The engine's log-probabilities; NaN where it returned none."""
    advantages_BT: Tensor
    mask_BT: Tensor
    """Boolean: True where the token is trained on."""
    sequences_BT: Tensor | None = None
    """Packed: index of the token's sequence in the micro-batch, from 0, and -1 for padding. None: row b holds
    sequence b alone."""
    ref_logprobs_BT: Tensor | None = None
    entropy_BT: Tensor | None = None
    """Entropy of the model's distribution at each token, with gradient where there is an entropy bonus."""
    values_BT: Tensor | None = None
    """The critic's value estimate before each token, with gradient."""
    old_values_BT: Tensor | None = None
    """The critic's values before the batch's first update."""
    returns_BT: Tensor | None = None
    """The critic's targets."""
    teacher_kl_BT: Tensor | None = None
    """Reverse KL to a teacher's distribution at each token, with gradient."""

    def cleaned(self) -> LossInputs:
        """Return the inputs in float32, with zeros outside of the mask."""
        outside_BT = ~self.mask_BT
        changes = {
            name: value.float().masked_fill(outside_BT, 0.0)
            for name in (each.name for each in fields(self))
            if name not in ("mask_BT", "sequences_BT")
            and isinstance(value := getattr(self, name), torch.Tensor)
        }
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveOutput:
    """The loss, and its metrics as sums that add up over micro-batches and ranks.

    The names are the same on every rank and for every micro-batch of a run, empty ones included.
    """

    loss: Tensor
    """0-d, with gradient. The loss of the minibatch is the sum over micro-batches and ranks, so a rank whose
    gradients are averaged with others multiplies it by their number.
    """
    losses: dict[str, Tensor] = field(default_factory=dict)
    """Parts of the loss, before their coefficients, 0-d and detached."""
    sums: dict[str, Tensor] = field(default_factory=dict)
    """Sums over the tokens that are trained on, 0-d and detached; ``tokens`` is their number."""
