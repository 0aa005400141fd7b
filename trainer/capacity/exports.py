"""Size of what a run exports: the model at its end, and those during the run that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.config import ScoringStageConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config import CheckpointConfig, StageConfig
    from trainer.update.memory import ModelShape

DISK_DTYPE = 2
"""Bytes of a weight in an exported folder, or one from the hub: 16 bits."""


def export_bytes(
    checkpoint: CheckpointConfig, stages: Sequence[StageConfig], warm_steps: int, base: ModelShape
) -> dict[str, int]:
    """Return the bytes of exported models by purpose.

    Args:
        checkpoint: settings of exports.
        stages: the stages after the warm start.
        warm_steps: steps of the warm start.
        base: the model without adapters and critic.
    """
    size = DISK_DTYPE * base.parameters
    during = _exports_at_once(checkpoint, stages, warm_steps) * size
    found = {"export": checkpoint.export * size, "exports during the run": during}
    return {name: size for name, size in found.items() if size}


def _exports_at_once(checkpoint: CheckpointConfig, stages: Sequence[StageConfig], warm_steps: int) -> int:
    """Return the most exports of steps; one is written before the oldest is deleted."""
    every, keep = checkpoint.export_every, checkpoint.export_keep
    if not every:
        return 0
    first, due = warm_steps, warm_steps // every
    for stage in stages:
        # Stages whose steps are given in passes over data are counted when the run starts.
        steps = stage.steps or 0
        if not isinstance(stage, ScoringStageConfig):
            due += (first + steps) // every - first // every
        first += steps
    return due if keep is None else min(due, keep + 1)
