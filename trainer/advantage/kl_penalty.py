"""Subtract a KL penalty to the reference model from rewards.

From Ziegler et al. 2019, https://arxiv.org/abs/1909.08593. Estimators as in Schulman 2020,
http://joschu.net/blog/kl-approx.html, of KL(policy | reference) at each sampled token, from the policy's
log-probabilities before the batch's first update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from trainer.types import FloatT, Sample


LOG_BOUND = 20.0
"""Greatest magnitude of a log-ratio."""


def token_kl(sample: Sample, estimator: Literal["k1", "k2", "k3"]) -> FloatT:
    """Return the KL to the reference at each token in nats, 0 where not sampled.

    Raises ValueError when the sample lacks the learner's or the reference's log-probabilities.
    """
    if sample.old_logprobs_T is None or sample.ref_logprobs_T is None:
        raise ValueError(
            f"sample {sample.id} lacks log-probabilities of the learner or the reference, which the KL needs"
        )
    with np.errstate(invalid="ignore"):
        gap_T = np.where(sample.mask_T, sample.old_logprobs_T - sample.ref_logprobs_T, 0.0)
    gap_T = np.clip(np.nan_to_num(gap_T, nan=0.0), -LOG_BOUND, LOG_BOUND)
    if estimator == "k1":
        kl = gap_T
    elif estimator == "k2":
        kl = np.square(gap_T) / 2
    else:
        kl = np.exp(-gap_T) - 1 + gap_T
    return np.asarray(kl, dtype=np.float32)


def penalised(sample: Sample, estimator: Literal["k1", "k2", "k3"], coefficient: float) -> FloatT:
    """Return the sample's rewards minus coefficient times KL, token by token."""
    return sample.rewards_T - np.float32(coefficient) * token_kl(sample, estimator)
