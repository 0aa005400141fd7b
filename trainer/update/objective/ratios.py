"""Probability ratios from log-probabilities that may be far apart."""

from __future__ import annotations

import torch
from torch import Tensor

LOG_BOUND = 20.0
"""Greatest magnitude of a log-ratio: e^20 is about 5e8, and its square still fits into a float32."""


def bounded(log_ratio: Tensor) -> Tensor:
    """Clamp the log-ratio to its bound; NaN becomes 0, which makes the ratio 1."""
    return torch.nan_to_num(log_ratio, nan=0.0, posinf=LOG_BOUND, neginf=-LOG_BOUND).clamp(
        -LOG_BOUND, LOG_BOUND
    )


def ratio(logprobs: Tensor, others: Tensor) -> Tensor:
    """Return p / q from log p and log q, always finite."""
    return bounded(logprobs - others).exp()
