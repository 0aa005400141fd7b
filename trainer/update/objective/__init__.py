"""Losses of a micro-batch as pure functions of tensors: one file a formula."""

from __future__ import annotations

from .aggregation import Totals, row_token_weights
from .kl import AdaptiveCoefficient, kl_estimate, sequence_kl
from .mismatch import mismatch_metrics
from .objective import imitation, objective, reported
from .types import LossInputs, ObjectiveOutput

__all__ = [
    "AdaptiveCoefficient",
    "LossInputs",
    "ObjectiveOutput",
    "Totals",
    "imitation",
    "kl_estimate",
    "mismatch_metrics",
    "objective",
    "reported",
    "row_token_weights",
    "sequence_kl",
]
