"""Losses of a micro-batch as pure functions of tensors: one formula per file."""

from __future__ import annotations

from .aggregation import Aggregation, Totals, row_token_weights
from .kl import AdaptiveCoefficient, kl_estimate, sequence_kl
from .mismatch import mismatch_metrics
from .objective import likelihood_loss, objective, reported
from .types import LossInputs, ObjectiveOutput

__all__ = [
    "AdaptiveCoefficient",
    "Aggregation",
    "LossInputs",
    "ObjectiveOutput",
    "Totals",
    "kl_estimate",
    "likelihood_loss",
    "mismatch_metrics",
    "objective",
    "reported",
    "row_token_weights",
    "sequence_kl",
]
