"""Size of what a run exports: the model at its end, and those during the run that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config import ScoringStageConfig

if TYPE_CHECKING:
    from trainer.config import RunConfig
    from trainer.update.memory import ModelShape

DISK_DTYPE = 2
"""Bytes of a weight in an exported folder, or one from the hub: 16 bits."""


def export_bytes(config: RunConfig, base: ModelShape) -> dict[str, int]:
    """Return the bytes of exported models by purpose; ``base`` is the model without adapters and critic."""
    size = DISK_DTYPE * base.parameters
    during = _exports_at_once(config) * size
    found = {"export": config.checkpoint.export * size, "exports during the run": during}
    return {name: size for name, size in found.items() if size}


def _exports_at_once(config: RunConfig) -> int:
    """Return the most exports of steps; one is written before the oldest is deleted."""
    every, keep = config.checkpoint.export_every, config.checkpoint.export_keep
    if not every:
        return 0
    due = first = 0
    if config.warm_start is not None:
        first = config.warm_start.steps
        due = first // every
    for stage in config.learning_stages:
        # Stages whose steps are given in passes over data are counted when the run starts.
        steps = getattr(stage, "steps", None) or 0
        if not isinstance(stage, ScoringStageConfig):
            due += (first + steps) // every - first // every
        first += steps
    return due if keep is None else min(due, keep + 1)
