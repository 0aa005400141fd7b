"""The resources that each trial of a sweep reserves: all the same, those of the largest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.launch.cluster import wanted_cpus

from .tuning import TrialResources

if TYPE_CHECKING:
    from trainer.config import EngineConfig, Hardware, LearnerConfig


def trial_resources(trials: Sequence[Hardware]) -> TrialResources:
    """Return the CPUs and GPUs that are enough for the engines and workers of every trial."""
    found = [_resources(trial.learner, trial.engine) for trial in trials]
    return TrialResources(max(each.cpus for each in found), max(each.gpus for each in found))


def _resources(learner: LearnerConfig, engine: EngineConfig) -> TrialResources:
    cards = learner.most_workers * learner.gpus
    if engine.device == "cuda" or (engine.device == "auto" and learner.gpus):
        cards += engine.count * engine.tensor_parallel * (engine.gpus if engine.gpus is not None else 1)
    return TrialResources(float(wanted_cpus(learner, engine)), float(cards))
