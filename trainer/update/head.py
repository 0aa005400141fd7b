"""Compute token statistics from hidden states in chunks, so that few logits exist at a time.

A language model's own forward pass turns all hidden states into logits at once: K tokens by V words, and a
gradient of that size. Here the logits of a chunk live only until its statistics are computed, and are
recomputed in the backward pass; gradients equal those of the full computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import checkpoint

from .logprobs import token_statistics
from .teacher_kl import reverse_kl

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig

    _Statistics = Callable[..., tuple[Tensor, ...]]


def chunked_statistics(
    logits: Callable[[Tensor], Tensor],
    hidden_KH: Tensor,
    targets_K: Tensor,
    temperature: float,
    rows: int,
    teacher_KV: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return log-probabilities of the targets and entropies of the distributions, in nats.

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

    def of_chunk(hidden: Tensor, targets: Tensor, *teacher: Tensor) -> tuple[Tensor, ...]:
        found = logits(hidden)
        kls = (reverse_kl(found, each, temperature) for each in teacher)
        return (*token_statistics(found, targets, temperature), *kls)

    columns = (hidden_KH, targets_K, *(() if teacher_KV is None else (teacher_KV,)))
    if len(hidden_KH) <= rows:
        return of_chunk(*columns)
    chunks = zip(*(torch.split(column, rows) for column in columns), strict=True)
    found = [_again(of_chunk, *chunk) for chunk in chunks]
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def _again(function: _Statistics, *given: Tensor) -> tuple[Tensor, ...]:
    """Call the function under checkpointing: keep only its arguments for the backward pass."""
    if not torch.is_grad_enabled():
        return function(*given)
    found: tuple[Tensor, ...] = checkpoint(function, *given, use_reentrant=False)
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
