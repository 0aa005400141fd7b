"""KL divergence between two policies, estimated at sampled tokens, and an adaptive coefficient for it.

With d = log p - log q at a token sampled from p, the estimators of KL(p | q) are k1 = d, k2 = d^2 / 2 and k3
= exp(-d) - 1 + d (Schulman 2020, http://joschu.net/blog/kl-approx.html). k1 and k3 are unbiased, k2 and k3
are never negative. As a term of the loss, k1 has a gradient of mean zero and is of use in the reward only;
k2 has the gradient of KL(p | q); k3, which GRPO uses, has approximately that of KL(q | p). Left out:
importance weights for tokens sampled by an older policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from .ratios import LOG_BOUND, bounded

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.algorithm import KlConfig
    from trainer.types import Sample


def kl_estimate(logprobs: Tensor, others: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """Estimate the KL to ``others`` at each token, in nats."""
    gap = bounded(logprobs - others)
    if estimator == "k1":
        return gap
    if estimator == "k2":
        return gap.square() / 2
    return (-gap).exp() - 1 + gap


def sequence_kl(samples: Sequence[Sample]) -> float | None:
    """Return the mean over samples of their summed KL to the reference before the update, in nats (k1,
    unbiased).

    An adaptive coefficient steers this value to its target. None without a reference or without tokens to
    train on; samples of weight 0 do not count.
    """
    sums = []
    for each in samples:
        if each.old_logprobs_T is None or each.ref_logprobs_T is None:
            return None
        if each.weight > 0 and each.mask_T.any():
            with np.errstate(invalid="ignore"):
                gap_T = (each.old_logprobs_T - each.ref_logprobs_T)[each.mask_T]
            sums.append(float(np.clip(np.nan_to_num(gap_T, nan=0.0), -LOG_BOUND, LOG_BOUND).sum()))
    return float(np.mean(sums)) if sums else None


@dataclass(frozen=True, slots=True)
class AdaptiveCoefficient:
    """A KL coefficient that follows a target (Ziegler et al. 2019, https://arxiv.org/abs/1909.08593, 2.2)."""

    value: float
    """The coefficient itself."""
    target: float | None
    """KL of a sequence, in nats; None: the coefficient stays constant."""
    horizon: int
    """Number of sequences over which the coefficient adapts, by a fifth at most; a larger batch counts as
    so many.
    """

    @classmethod
    def of(cls, config: KlConfig) -> AdaptiveCoefficient:
        """Return the coefficient at the start of a run."""
        return cls(
            value=0.0 if config.place == "none" else config.coefficient,
            target=config.target,
            horizon=config.horizon,
        )

    def after(self, kl: float, sequences: int) -> AdaptiveCoefficient:
        """Return the coefficient after a batch.

        Args:
            kl: measured mean over sequences of their summed KL, in nats.
            sequences: number of sequences in the batch.
        """
        if self.target is None:
            return self
        error = min(max(kl / self.target - 1.0, -0.2), 0.2)
        value = self.value * (1.0 + error * min(1.0, sequences / self.horizon))
        return AdaptiveCoefficient(value, self.target, self.horizon)
