"""Compute the reverse KL of next-token distributions to a teacher's, from the logits of both.

As in ``logprobs``, only a slice of rows at a time is in float32, forward and backward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from .logprobs import slices

if TYPE_CHECKING:
    from torch import Tensor


def reverse_kl(logits_KV: Tensor, teacher_KV: Tensor, temperature: float = 1.0) -> Tensor:
    """Return KL(policy | teacher) of each token's distribution, in nats; the teacher has no gradient.

    Where one model has more words, which are padding of its embedding, both distributions are those over the
    words that they share.

    Args:
        logits_KV: the policy's, one row a token; any floating type.
        teacher_KV: the teacher's, already divided by its temperature. Words at -inf have the probability 0,
            which makes the KL infinite where the policy may say them.
        temperature: divisor of the policy's logits, above 0, as in sampling.

    Returns:
        A float32 tensor of K.
    """
    mine, others = logits_KV.shape[-1], teacher_KV.shape[-1]
    shared_KV = logits_KV if mine <= others else logits_KV[:, :others]
    kl_K: Tensor = _ReverseKl.apply(shared_KV, teacher_KV[:, :mine], 1 / temperature)  # type: ignore[no-untyped-call]
    return kl_K


class _ReverseKl(torch.autograd.Function):
    """With z the scaled logits: d KL / d z = p (log p - log p_teacher - KL)."""

    @staticmethod
    def forward(ctx: Any, logits_KV: Tensor, teacher_KV: Tensor, scale: float) -> Tensor:  # noqa: ANN401
        kl_K = logits_KV.new_empty(len(logits_KV), dtype=torch.float32)
        for part in slices(logits_KV):
            p, gap = _distribution(logits_KV[part], teacher_KV[part], scale)
            kl_K[part] = torch.linalg.vecdot(p, gap)
        ctx.save_for_backward(logits_KV, teacher_KV, kl_K)
        ctx.scale = scale
        return kl_K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_kl_K: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        logits_KV, teacher_KV, kl_K = ctx.saved_tensors
        gradient_KV = torch.empty_like(logits_KV)
        for part in slices(logits_KV):
            p, gap = _distribution(logits_KV[part], teacher_KV[part], ctx.scale)
            gradient_KV[part] = p * (gap - kl_K[part, None]) * (by_kl_K[part, None] * ctx.scale)
        return gradient_KV, None, None


def _distribution(logits: Tensor, teacher: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the policy's probabilities, and log p - log p_teacher, which is 0 for words of probability 0."""
    logp = torch.log_softmax(logits.float() * scale, dim=-1)
    p = logp.exp()
    gap = logp - torch.log_softmax(teacher.float(), dim=-1)
    return p, gap.masked_fill_(p == 0, 0.0)
