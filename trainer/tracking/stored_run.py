"""Read the configuration that a run's folder keeps, and where reinforcement learning begins in its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.reading import read_stored_run
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.config import RunConfig


OFFLINE_LOSSES = ("loss/sft", "loss/preferences", "loss/reward_model", "loss/process_reward_model")
"""Metrics of stages on given data, one of which each of their steps has."""


def stored_config(folder: Path) -> RunConfig | None:
    """Return the configuration of the run in a folder; None where it is missing or cannot be read."""
    try:
        return read_stored_run((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, ConfigError):
        return None


def first_step(config: RunConfig | None, metrics: Mapping[int, Mapping[str, float]]) -> int:
    """Return the step at which reinforcement learning begins, as metrics and evaluations count in files."""
    if config is None:
        offline = (step for step, values in metrics.items() if any(name in values for name in OFFLINE_LOSSES))
        return max((step + 1 for step in offline), default=0)
    return config.offline_steps
