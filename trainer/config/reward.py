"""Settings of an episode's reward."""

from __future__ import annotations

from typing import Literal

from sandbox_settings import Branch


class TermWeights(Branch):
    """Weights of named shaping terms; each is off at 0."""

    execution_success: float = 0.0
    """Share of executed actions that succeeded."""
    file_operation: float = 0.0
    """The answer's file was created."""
    progress: float = 0.0
    """Increase of the environment's own measure of progress, turn by turn."""
    efficiency: float = 0.0
    """1 - turns / horizon, for solved episodes."""
    format: float = 0.0
    """Share of turns with a well-formed action."""
    length: float = 0.0
    """Minus sampled tokens / context, at least -1."""


class RewardConfig(Branch):
    """Outcome, the environment's step rewards, and shaping."""

    outcome: Literal["score", "success"] = "score"
    """score: the graded score. success: 1 for solved, 0 otherwise."""
    outcome_weight: float = 1.0
    """Weight of the outcome."""
    step_weight: float = 0.0
    """Weight of the environment's own step rewards, shaped terms included."""
    terms: TermWeights = TermWeights()
    least: float | None = None
    """Lower cap of an episode's composed reward."""
    most: float | None = None
    """Upper cap of an episode's composed reward."""
    shaping_cap: float | None = None
    """Greatest magnitude of the sum of all parts but the outcome."""
