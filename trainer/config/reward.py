"""What an episode is worth to the trainer."""

from __future__ import annotations

from typing import Literal

from sandbox_settings import Branch

__all__ = ["RewardConfig", "TermWeights"]


class TermWeights(Branch):
    """Weights of named shaping terms; each is off at 0."""

    execution_success: float = 0.0
    """Share of executed actions that succeeded."""
    file_operation: float = 0.0
    """The answer's file was made."""
    progress: float = 0.0
    """Growth of the environment's own measure of progress, turn by turn."""
    efficiency: float = 0.0
    """1 - turns / horizon, for solved episodes."""
    format: float = 0.0
    """Share of turns that held a well-formed action."""
    length: float = 0.0
    """Minus sampled tokens / the context, at least -1."""


class RewardConfig(Branch):
    """Outcome, the environment's step rewards, and shaping."""

    outcome: Literal["score", "success"] = "score"
    """The graded score, or 1 for solved and 0 for not."""
    outcome_weight: float = 1.0
    step_weight: float = 0.0
    """Of the environment's own step rewards, shaped terms included."""
    terms: TermWeights = TermWeights()
    least: float | None = None
    """Cap of an episode's composed reward from below."""
    most: float | None = None
    """Cap from above."""
    shaping_cap: float | None = None
    """Greatest size of the sum of all that is not outcome."""
