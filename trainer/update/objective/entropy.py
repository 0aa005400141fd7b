"""Entropy of the next-token distribution, the bonus that keeps a policy exploring (Williams & Peng 1991)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["entropy"]


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats over the last axis, in float32; logits of -inf have probability 0."""
    logs = logits.float().log_softmax(-1)
    probabilities = logs.exp()
    return -(probabilities * logs.masked_fill(probabilities == 0, 0.0)).sum(-1)
