"""The resources that one trial of a run reserves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.launch.cluster import wanted_cpus

from .tuning import TrialResources

if TYPE_CHECKING:
    from trainer.config import EngineConfig, LearnerConfig


def trial_resources(learner: LearnerConfig, engine: EngineConfig) -> TrialResources:
    """Return the CPUs and GPUs of a trial's engines and workers."""
    cards = learner.most_workers * learner.gpus
    if engine.device == "cuda" or (engine.device == "auto" and learner.gpus):
        cards += engine.count * engine.tensor_parallel * (engine.gpus if engine.gpus is not None else 1)
    return TrialResources(float(wanted_cpus(learner, engine)), float(cards))
