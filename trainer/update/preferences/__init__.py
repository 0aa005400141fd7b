"""Losses on preferences as pure functions of log-probabilities: one formula a file."""

from __future__ import annotations

from .credit import preference_credit
from .dpo import dpo_losses
from .ipo import ipo_losses
from .kto import kto_losses
from .orpo import orpo_losses
from .types import CompletionPairs, Completions

__all__ = [
    "CompletionPairs",
    "Completions",
    "dpo_losses",
    "ipo_losses",
    "kto_losses",
    "orpo_losses",
    "preference_credit",
]
