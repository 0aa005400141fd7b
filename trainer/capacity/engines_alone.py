"""Reduce a run to its engines, for plans of what is played without a learner, such as an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config import AlgorithmConfig, CheckpointConfig, LearnerConfig, SyncConfig
from trainer.weight_sync.choice import resolve_device, shares_gpus

if TYPE_CHECKING:
    from trainer.config import RunConfig


def engines_alone(config: RunConfig) -> RunConfig:
    """Return the run with no worker of a learner, which only a plan can have: no run could be started so.

    Engines that would share their GPUs with a learner have them to themselves.
    """
    device = resolve_device(config.hardware)
    engine: dict[str, object] = {"device": device, "sleep": False}
    if shares_gpus(config.hardware, device):
        engine["gpus"] = 1.0
    changes = {
        "learner": LearnerConfig().model_copy(update={"workers": 0}),
        "engine": config.engine.model_copy(update=engine),
        "algorithm": AlgorithmConfig(),
        "checkpoint": CheckpointConfig(export=False),
        "sync": SyncConfig(),
    }
    return config.model_copy(update=changes)
