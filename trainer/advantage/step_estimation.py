"""The loss of a process reward model on the steps of episodes (Lightman et al. 2023,
https://arxiv.org/abs/2305.20050; soft labels from continuations: Wang et al. 2024, Math-Shepherd,
https://arxiv.org/abs/2312.08935).

Each named dimension of a step is a probability: the logistic function of one output, trained by the
cross-entropy with a label between 0 and 1. A label that is not known is NaN and counts for nothing. Left out:
ranking losses between steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .chains import Array


@dataclass(frozen=True, slots=True, eq=False)
class StepLoss:
    """The loss of K steps, and its derivatives by their D outputs."""

    loss: float
    by_outputs_KD: Array
    known: int
    """Labels that are known."""


def step_estimation(outputs_KD: Array, labels_KD: Array) -> StepLoss:
    """Return the mean cross-entropy over all known labels; 0 where none is known.

    Args:
        outputs_KD: outputs before the logistic function.
        labels_KD: probabilities; NaN where unknown.
    """
    known_KD = ~np.isnan(labels_KD)
    known = int(known_KD.sum())
    if not known:
        return StepLoss(0.0, np.zeros_like(outputs_KD), 0)
    labels = np.where(known_KD, labels_KD, 0.0)
    losses_KD = np.logaddexp(0.0, outputs_KD) - labels * outputs_KD
    slopes_KD = probabilities(outputs_KD) - labels
    return StepLoss(
        loss=float(losses_KD[known_KD].sum() / known),
        by_outputs_KD=np.where(known_KD, slopes_KD / known, 0.0),
        known=known,
    )


def traced_back(outcome: float, steps: int, discount: float) -> tuple[float, ...]:
    """Return the label ``outcome * discount ** (steps - 1 - t)`` of each step t."""
    return tuple(outcome * discount ** (steps - 1 - step) for step in range(steps))


def probabilities(outputs: Array) -> Array:
    """Return the logistic function of outputs, without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -outputs)))
