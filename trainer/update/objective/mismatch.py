"""Correct for differences between the engine's and the learner's probabilities of the same token.

Tokens are sampled by the engine, whose kernels, precision and (when sampling runs ahead) weights differ from
the learner's. With r = p_learner / p_engine before the batch's first update, the loss of a token is
multiplied by min(r, cap) (truncated importance sampling, Yao et al. 2025,
https://fengyao.notion.site/off-policy-rl), or by r where r is within [floor, cap] and by 0 elsewhere
(masked: IcePop, Ling Team 2025, https://arxiv.org/abs/2510.18855). At the level ``sequence``, r is the
product over the sequence's sampled tokens. Denominators of the aggregation still count masked tokens. Left
out: the geometric mean over a sequence, rejection by its worst token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .kl import kl_estimate
from .ratios import bounded
from .sequences import sequence_sums

if TYPE_CHECKING:
    from trainer.config.algorithm import MismatchConfig
    from trainer.types import FloatT, Sample


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Token weights, without gradient."""

    weights_BT: Tensor
    corrected_BT: Tensor
    """Boolean: the weight is truncated or the token masked."""


def correction(
    old_logprobs_BT: Tensor,
    sampling_logprobs_BT: Tensor,
    mask_BT: Tensor,
    config: MismatchConfig,
    sequences_BT: Tensor | None = None,
) -> Correction:
    """Return the importance weight of each token, (B, T); 1 where the engine gave no log-probability, or
    with mode off.
    """
    gap_BT = bounded((old_logprobs_BT - sampling_logprobs_BT).detach().float()).masked_fill(~mask_BT, 0.0)
    if config.level == "sequence":
        gap_BT = bounded(sequence_sums(gap_BT, sequences_BT))
    ratio_BT = gap_BT.exp()
    if config.mode == "off":
        return Correction(torch.ones_like(ratio_BT), torch.zeros_like(mask_BT))
    beyond_BT = ratio_BT > config.cap
    if config.mode == "truncate":
        return Correction(ratio_BT.clamp(max=config.cap), beyond_BT & mask_BT)
    out_BT = beyond_BT | (ratio_BT < config.floor)
    return Correction(ratio_BT.masked_fill(out_BT, 0.0), out_BT & mask_BT)


def mismatch_metrics(samples: Sequence[Sample], config: MismatchConfig) -> dict[str, float]:
    """Return metrics of the difference between learner and engine over the sampled tokens of a batch.

    ``mismatch/kl`` is the k3 estimate of KL(engine | learner) in nats a token, ``mismatch/max`` the greatest
    difference of log-probabilities, ``mismatch/ratio_p01`` (``_p50``, ``_p99``) quantiles of the token
    ratios, ``mismatch/share`` the share of tokens that are truncated or masked, ``mismatch/missing`` that of
    tokens whose log-probability is not finite. Raises ValueError for samples without the learner's
    log-probabilities.
    """
    kept = [sample for sample in samples if sample.weight > 0 and sample.mask_T.any()]
    names = ("kl", "max", "missing", "ratio_p01", "ratio_p50", "ratio_p99", "share")
    if not kept:
        return {f"mismatch/{name}": 0.0 for name in names}
    old_1N = torch.from_numpy(np.concatenate([_learner(sample) for sample in kept]))[None]
    sampling_1N = torch.from_numpy(np.concatenate([sample.logprobs_T[sample.mask_T] for sample in kept]))[
        None
    ]
    sequences_1N = torch.from_numpy(
        np.repeat(np.arange(len(kept)), [int(sample.mask_T.sum()) for sample in kept])
    )[None]
    mask_1N = torch.ones_like(old_1N, dtype=torch.bool)
    corrected_1N = correction(old_1N, sampling_1N, mask_1N, config, sequences_1N).corrected_BT
    finite_1N = (old_1N - sampling_1N).isfinite()
    gap_1N = bounded(old_1N - sampling_1N)
    ratios = np.quantile(gap_1N.exp().numpy(), [0.01, 0.5, 0.99])
    values = (
        float(kl_estimate(sampling_1N, old_1N, "k3").mean()),
        float(gap_1N.abs().max()),
        1.0 - float(finite_1N.float().mean()),
        *(float(value) for value in ratios),
        float(corrected_1N.float().mean()),
    )
    return {f"mismatch/{name}": value for name, value in zip(names, values, strict=True)}


def _learner(sample: Sample) -> FloatT:
    if sample.old_logprobs_T is None:
        raise ValueError(f"sample {sample.id} has no log-probabilities of the learner")
    return sample.old_logprobs_T[sample.mask_T]
