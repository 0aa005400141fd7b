"""Probability ratios from log-probabilities that may be far apart."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["LOG_BOUND", "bounded", "ratio"]

LOG_BOUND = 20.0
"""Greatest size of a log-ratio: e^20 is about 5e8, and its square is still a float32."""


def bounded(log_ratio: Tensor) -> Tensor:
    """The log-ratio within its bound; 0 where it is not a number, which makes the ratio 1."""
    return torch.nan_to_num(log_ratio, nan=0.0, posinf=LOG_BOUND, neginf=-LOG_BOUND).clamp(
        -LOG_BOUND, LOG_BOUND
    )


def ratio(logprobs: Tensor, others: Tensor) -> Tensor:
    """p / q from log p and log q, finite."""
    return bounded(logprobs - others).exp()
