"""On-policy distillation: the reverse KL to a teacher at the policy's own tokens, as an advantage.

At a token sampled from the policy, log p - log p_teacher is an unbiased estimate of the reverse KL of the
next-token distributions, and its negative as a detached advantage gives that KL's policy gradient (Agarwal
et al. 2023, GKD, https://arxiv.org/abs/2306.13649, with the reverse KL and data of the student alone; Lu
2025, https://thinkingmachines.ai/blog/on-policy-distillation/). With a discount of 0, as in the latter, a
token is credited with its own KL alone. With the teacher's whole distributions (``estimate="exact"``), the KL
is a loss, computed by ``trainer.update.teacher_kl``, without the noise of sampling one word. Left out: GKD's
mixtures with a fixed data set, and its generalised Jensen-Shannon divergences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import RunEnded

from .algorithms import Credit
from .kl_penalty import LOG_BOUND
from .return_to_go import return_to_go

if TYPE_CHECKING:
    from trainer.config.distillation import DistillationConfig
    from trainer.types import Sample

    from .chains import Array, Chain


def reverse_kl(policy_A: Array, teacher_A: Array) -> Array:
    """Return log p - log p_teacher at each sampled token in nats, within +-``LOG_BOUND``.

    Raises RunEnded for a log-probability that is not a number.
    """
    if np.isnan(policy_A).any() or np.isnan(teacher_A).any():
        whose = "teacher" if np.isnan(teacher_A).any() else "policy"
        raise RunEnded(
            f"the {whose}'s log-probability of a sampled token is not a number, so nothing can be learned "
            "from the teacher; check the weights of that model and learner.dtype"
        )
    # Both may be minus infinity, whose difference is none.
    gap_A = np.maximum(policy_A, -1e6) - np.maximum(teacher_A, -1e6)
    return np.asarray(np.clip(gap_A, -LOG_BOUND, LOG_BOUND), dtype=np.float64)


def distilled(
    samples: Sequence[Sample],
    episodes: Sequence[Chain],
    credits_N: Sequence[Credit],
    config: DistillationConfig,
) -> tuple[list[Credit], dict[str, float]]:
    """Return the credits with the teacher's part, and its metrics over the trained tokens.

    The advantage of a token becomes ``task_weight`` times the task's minus ``weight`` times the discounted
    sum of reverse KLs from the token on.

    Args:
        samples: rows of the batch, with log-probabilities of the policy and of the teacher.
        episodes: its trajectories.
        credits_N: their credits from the rewards.
        config: teacher and weights.

    With the exact estimate the teacher's part is a loss of the update's, and advantages are the task's alone.

    Raises ValueError when log-probabilities are missing.
    """
    if config.estimate == "exact":
        scaled = [Credit(config.task_weight * mine.advantages_A, mine.returns_A) for mine in credits_N]
        return scaled, {}
    found: list[Credit] = []
    kls: list[Array] = []
    for chain, mine in zip(episodes, credits_N, strict=True):
        policy_A, teacher_A = _logprobs([samples[index] for index in chain.samples])
        kl_A = reverse_kl(policy_A, teacher_A)[chain.places_A]
        towards_A = -config.weight * return_to_go(kl_A, config.discount)
        found.append(Credit(config.task_weight * mine.advantages_A + towards_A, mine.returns_A))
        if chain.trained:
            kls.append(kl_A)
    kl_N = np.concatenate(kls) if kls else np.zeros(0)
    metrics = {
        "distillation/kl": float(kl_N.mean()) if len(kl_N) else 0.0,
        "distillation/kl_sequence": float(np.mean([kl_A.sum() for kl_A in kls])) if kls else 0.0,
    }
    return found, metrics


def _logprobs(parts: Sequence[Sample]) -> tuple[Array, Array]:
    """Return the log-probabilities of the actions of samples by the policy and by the teacher."""
    policy: list[Array] = []
    teacher: list[Array] = []
    for sample in parts:
        if sample.old_logprobs_T is None or sample.teacher_logprobs_T is None:
            raise ValueError(f"sample {sample.id} lacks log-probabilities of the policy or the teacher")
        policy.append(sample.old_logprobs_T[sample.mask_T].astype(np.float64))
        teacher.append(sample.teacher_logprobs_T[sample.mask_T].astype(np.float64))
    return np.concatenate(policy), np.concatenate(teacher)
