"""Per-token policy losses, before weighting.

Each takes the model's and the old log-probabilities, advantages and the mask, all (B, T) and 0 outside of
the mask, and returns the loss of each token and where clipping removed the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sandbox_plugins import PluginGroup
from trainer.config.algorithm import CispoLoss, GspoLoss, PluginLoss, PpoLoss
from trainer.plugins import call_plugin, rejected

from .ratios import bounded, ratio
from .sequences import sequence_means

if TYPE_CHECKING:
    from .types import LossInputs

_OF_DEVICE = (torch.OutOfMemoryError, torch.AcceleratorError)
"""Errors after which the workers are restarted, in a plugin's loss as in any other."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyLoss:
    """A policy loss, token by token."""

    losses_BT: Tensor
    clipped_BT: Tensor
    """Boolean: clipping bounds the token's loss."""


def ppo(inputs: LossInputs, config: PpoLoss) -> PolicyLoss:
    """Return the clipped surrogate, -min(r A, clip(r, 1 - low, 1 + high) A).

    From Schulman et al. 2017, https://arxiv.org/abs/1707.06347. Asymmetric bounds are DAPO's clip-higher (Yu
    et al. 2025, https://arxiv.org/abs/2503.14476). ``dual_clip`` c bounds the loss of bad actions at -c A
    (Ye et al. 2020, https://arxiv.org/abs/1912.09729). Left out: early stopping by KL.
    """
    ratio_BT = ratio(inputs.logprobs_BT, inputs.old_logprobs_BT)
    return _clipped_surrogate(ratio_BT, inputs.advantages_BT, config)


def gspo(inputs: LossInputs, config: GspoLoss) -> PolicyLoss:
    """Return the clipped surrogate of a sequence's ratio, the geometric mean of its tokens' ratios.

    From Zheng et al. 2025, https://arxiv.org/abs/2507.18071, in the paper's form GSPO-token: every token
    carries its sequence's ratio, and the gradient of its own log-probability. Where advantages and weights
    are constant within a sequence its gradient equals GSPO's; turns may have advantages of their own. The
    paper averages over sequences: that is the aggregation ``sequence``.
    """
    gap_BT = bounded(inputs.logprobs_BT - inputs.old_logprobs_BT)
    mean_BT = sequence_means(gap_BT.detach(), inputs.mask_BT, inputs.sequences_BT)
    ratio_BT = bounded(inputs.logprobs_BT - inputs.logprobs_BT.detach() + mean_BT).exp()
    return _clipped_surrogate(
        ratio_BT, inputs.advantages_BT, PpoLoss(clip_low=config.clip_low, clip_high=config.clip_high)
    )


def cispo(inputs: LossInputs, config: CispoLoss) -> PolicyLoss:
    """Return REINFORCE with clipped, detached weights, -sg(clip(r)) A log p.

    From MiniMax 2025, https://arxiv.org/abs/2506.13585. No token loses its gradient; ``clipped_BT`` is true
    where the weight is bounded.
    """
    ratio_BT = ratio(inputs.logprobs_BT, inputs.old_logprobs_BT).detach()
    low = 0.0 if config.clip_low is None else 1.0 - config.clip_low
    weights_BT = ratio_BT.clamp(low, 1.0 + config.clip_high)
    return PolicyLoss(-weights_BT * inputs.advantages_BT * inputs.logprobs_BT, weights_BT != ratio_BT)


def _plugin(inputs: LossInputs, config: PluginLoss) -> PolicyLoss:
    """Call the function of a plugin, and check what it returns. Raises ConfigError."""
    found = call_plugin(PluginGroup.LOSSES, config.kind, config.options, inputs, _OF_DEVICE)
    shape = inputs.logprobs_BT.shape
    if not isinstance(found, PolicyLoss) or not all(
        isinstance(each, Tensor) and each.shape == shape for each in (found.losses_BT, found.clipped_BT)
    ):
        cause = f"it must return a PolicyLoss with two tensors of the shape {tuple(shape)} of its inputs"
        raise rejected(PluginGroup.LOSSES, config.kind, cause)
    return found


def _clipped_surrogate(ratio_BT: Tensor, advantages_BT: Tensor, config: PpoLoss) -> PolicyLoss:
    free_BT = ratio_BT * advantages_BT
    bound_BT = ratio_BT.clamp(1.0 - config.clip_low, 1.0 + config.clip_high) * advantages_BT
    gains_BT = torch.min(free_BT, bound_BT)
    clipped_BT = bound_BT < free_BT
    if config.dual_clip is not None:
        least_BT = config.dual_clip * advantages_BT
        dual_BT = (advantages_BT < 0) & (gains_BT < least_BT)
        gains_BT = torch.where(dual_BT, least_BT, gains_BT)
        clipped_BT = clipped_BT | dual_BT
    return PolicyLoss(-gains_BT, clipped_BT)


POLICY_LOSSES: Mapping[type, Callable[[LossInputs, Any], PolicyLoss]] = {
    CispoLoss: cispo,
    GspoLoss: gspo,
    PluginLoss: _plugin,
    PpoLoss: ppo,
}
"""Policy losses by the name in the configuration."""
