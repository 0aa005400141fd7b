"""Kahneman-Tversky optimization (KTO), for completions that are desirable or not, without pairs.

    loss = w_D (1 - sigmoid(beta (r - z)))   of a desirable completion
    loss = w_U (1 - sigmoid(beta (z - r)))   of an undesirable one
    r = log pi(y | x) / ref(y | x),  z = max(0, mean of log pi(y' | x) / ref(y' | x))

(Ethayarajh et al. 2024, equations 7 and 8, https://arxiv.org/abs/2402.01306). z estimates the KL of policy
and reference from completions y' of other prompts; no gradient passes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.preferences import KtoLoss

    from .types import Completions


def kl_baseline(mismatched: Completions) -> Tensor:
    """Return the KL estimate z from completions of other prompts, 0-d and detached; 0 without any."""
    if not len(mismatched.logprobs_N):
        return mismatched.logprobs_N.detach().sum()
    return mismatched.ratios.detach().mean().clamp(min=0.0)


def kto_losses(completions: Completions, desirable_N: Tensor, kl: Tensor, config: KtoLoss) -> Tensor:
    """Return the loss of each completion, shape (N,).

    Args:
        completions: the labelled completions.
        desirable_N: boolean labels.
        kl: the KL estimate, 0-d.
        config: the settings of the loss.
    """
    above_N = config.beta * (completions.ratios - kl)
    return torch.where(
        desirable_N,
        config.desirable_weight * (1.0 - torch.sigmoid(above_N)),
        config.undesirable_weight * (1.0 - torch.sigmoid(-above_N)),
    )
