"""A run's configuration: one frozen tree with a branch for each part of the trainer."""

from __future__ import annotations

from .agent import AgentConfig, CommandAgent, FunctionAgent, RemoteAgent
from .algorithm import AlgorithmConfig
from .engine import EngineConfig, SyncConfig
from .evolve import EpisodeSelectionConfig, EvolveConfig, EvolveTrainingConfig, ExploreConfig, FeedbackConfig
from .learner import CheckpointConfig, LearnerConfig, OptimizerConfig
from .model import ChatConfig, LoraConfig, ModelConfig, PretrainedModel, TinyModel
from .outputs import RayConfig, TrackingConfig
from .parts import (
    BatchSettings,
    EngineSettings,
    EvolutionSettings,
    Hardware,
    LearnerSettings,
    LoopSettings,
    SyncSettings,
    TrackerSettings,
    WarmStartSettings,
)
from .reward import RewardConfig, TermWeights
from .rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from .run import RunConfig
from .stages import (
    EvaluationConfig,
    OfflineStageConfig,
    PairedStageConfig,
    PreferencesStageConfig,
    ProcessRewardModelStageConfig,
    RewardModelStageConfig,
    RlStageConfig,
    ScoringStageConfig,
    SftStageConfig,
    StageConfig,
    WarmStartConfig,
)
from .tasks import CurriculumConfig, HorizonConfig, PhaseConfig, ReplayConfig, TasksConfig, TaskSource

__all__ = [
    "AgentConfig",
    "AlgorithmConfig",
    "BatchSettings",
    "ChatConfig",
    "CheckpointConfig",
    "CommandAgent",
    "CurriculumConfig",
    "EngineConfig",
    "EngineSettings",
    "EpisodeSelectionConfig",
    "EvaluationConfig",
    "EvolutionSettings",
    "EvolveConfig",
    "EvolveTrainingConfig",
    "ExploreConfig",
    "FeedbackConfig",
    "FunctionAgent",
    "Hardware",
    "HorizonConfig",
    "LearnerConfig",
    "LearnerSettings",
    "LoopSettings",
    "LoraConfig",
    "ModelConfig",
    "OfflineStageConfig",
    "OptimizerConfig",
    "PairedStageConfig",
    "PhaseConfig",
    "PreferencesStageConfig",
    "PretrainedModel",
    "ProcessRewardModelStageConfig",
    "RayConfig",
    "RemoteAgent",
    "ReplayConfig",
    "RewardConfig",
    "RewardModelStageConfig",
    "RlStageConfig",
    "RolloutConfig",
    "RunConfig",
    "SamplingConfig",
    "SandboxServiceConfig",
    "ScoringStageConfig",
    "SftStageConfig",
    "StageConfig",
    "SyncConfig",
    "SyncSettings",
    "TaskSource",
    "TasksConfig",
    "TermWeights",
    "TinyModel",
    "TrackerSettings",
    "TrackingConfig",
    "WarmStartConfig",
    "WarmStartSettings",
]
