"""Measure learning speed: tokens of a step's batch over the time of the whole step, waiting included."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import Hardware
    from trainer.types import Batch


def devices_of(hardware: Hardware, workers: int) -> float:
    """Return the number of GPUs that learner and engines hold; without GPUs, that of computing processes."""
    learner, engine = hardware.learner, hardware.engine
    per_engine = engine.tensor_parallel * (1.0 if engine.gpus is None else engine.gpus)
    engines = engine.count if hardware.steps else 0
    if learner.gpus:
        return workers * learner.gpus + engines * per_engine
    return float(workers + engines)


def step_throughput(hardware: Hardware, batch: Batch, seconds: float, workers: int) -> dict[str, float]:
    """Return tokens per second of a step, for the whole run and per device."""
    rate = sum(len(sample) for sample in batch.samples) / seconds if seconds else 0.0
    return {
        "throughput/tokens_per_s": rate,
        "throughput/tokens_per_s_per_device": rate / devices_of(hardware, workers),
    }
