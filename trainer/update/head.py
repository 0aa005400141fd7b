"""Compute token statistics from hidden states in chunks, so that few logits exist at a time.

A language model's own forward pass turns all hidden states into logits at once: K tokens by V words, and a
gradient of that size. Here the logits of a chunk live only until its statistics are computed, and are
recomputed in the backward pass; gradients equal those of the full computation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import checkpoint

from .logprobs import token_statistics
from .teacher_kl import reverse_kl

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig

    _Statistics = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def chunked_statistics(
    logits: Callable[[Tensor], Tensor],
    hidden_KH: Tensor,
    targets_K: Tensor,
    temperature: float,
    rows: int,
    teacher_KV: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return log-probabilities of the targets, entropies of the distributions, and KLs to a teacher, in nats.

    Args:
        logits: function from hidden states to logits.
        hidden_KH: one row a token, before the output layer.
        targets_K: the tokens that were sampled.
        temperature: sampling temperature.
        rows: tokens of a chunk.
        teacher_KV: a teacher's logits; the reverse KL to it is then the third result.

    Returns:
        Two or three float32 tensors of K.
    """

    def of_chunk(start: int, hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        found = logits(hidden)
        statistics = token_statistics(found, targets, temperature)
        if teacher_KV is None:
            return statistics
        # No argument of the checkpoint, which may offload those to the host.
        return (*statistics, reverse_kl(found, teacher_KV[start : start + len(hidden)], temperature))

    if len(hidden_KH) <= rows:
        return of_chunk(0, hidden_KH, targets_K)
    chunks = zip(torch.split(hidden_KH, rows), torch.split(targets_K, rows), strict=True)
    found = [_again(partial(of_chunk, place * rows), *chunk) for place, chunk in enumerate(chunks)]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def _again(function: _Statistics, hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    """Call the function under checkpointing: keep only its arguments for the backward pass."""
    if not torch.is_grad_enabled():
        return function(hidden, targets)
    found: tuple[Tensor, ...] = checkpoint(function, hidden, targets, use_reentrant=False)
    return found


def adjusted(config: PreTrainedConfig, logits: Tensor) -> Tensor:
    """Apply the model's adjustments of its logits: a scale (Granite, Cohere) or a soft cap (Gemma)."""
    for name in ("logit_scale", "lm_head_multiplier"):
        if (factor := getattr(config, name, None)) is not None:
            logits = logits * factor
    if (divisor := getattr(config, "logits_scaling", None)) is not None:
        logits = logits / divisor
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
        logits = torch.tanh(logits / cap) * cap
    return logits
