"""The settings that each part of the trainer gets, in place of a run's whole configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .algorithm import AlgorithmConfig
    from .engine import EngineConfig, SyncConfig
    from .learner import CheckpointConfig, LearnerConfig
    from .rollout import SamplingConfig
    from .stages import EvaluationConfig


@dataclass(frozen=True, slots=True)
class Hardware:
    """Settings that decide where learner and engines compute, and how weights get from one to the other."""

    learner: LearnerConfig
    engine: EngineConfig
    sync: SyncConfig
    steps: int
    """Updates by reinforcement learning; a run without any has no engines."""


@dataclass(frozen=True, slots=True)
class SyncSettings(Hardware):
    """Settings of the weight sync."""

    in_flight: Literal["keep", "abort"]
    """What becomes of turns in progress while engines pause."""
    folder: Path
    """The run's folder, which tells its snapshots from those of other runs."""


@dataclass(frozen=True, slots=True)
class EngineSettings(Hardware):
    """Settings of the rollout engines."""

    name: str
    """The run's name, from which engines derive theirs."""
    folder: Path
    """The run's folder."""
    sampling: SamplingConfig
    max_context_tokens: int | None


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """Settings of the model in training and its updates."""

    learner: LearnerConfig
    algorithm: AlgorithmConfig
    seed: int
    temperature: float
    """Temperature that turns are sampled at; 0 in evaluations only."""


@dataclass(frozen=True, slots=True)
class LoopSettings(Hardware):
    """Settings of the training loop."""

    algorithm: AlgorithmConfig
    checkpoint: CheckpointConfig
    evaluation: EvaluationConfig
