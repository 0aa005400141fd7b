"""Train on recorded data alone: ``sft``, ``preferences`` and ``reward_model``, like the commands so named.

    from trainer.launch.recorded_training import preferences

    result = preferences(RunConfig(name="dpo"), [Path("pairs.jsonl")])
    result.folder / "model"

Each runs the stages of its kind of a run's configuration. ``data`` are files in place of those of the stage;
a run without a stage of the kind gets one, of one pass over them. All raise ConfigError for a run with
nothing to train on and DataError for data that cannot be used, before anything is started, and otherwise
TrainerError; completed work stays in the run's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from trainer.config.stage_selection import only_stages

from .run import train

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .following import OnMetrics, OnWarning
    from .run import RunResult


class TrainOptions(TypedDict, total=False):
    """Options of ``trainer.launch.run.train``."""

    resume: bool
    """Continue the run of this name."""
    on_metrics: OnMetrics | None
    """Called with each step's metrics, as they are written."""
    on_warning: OnWarning | None
    """Called with warnings."""


def sft(config: RunConfig, data: Sequence[Path] = (), **options: Unpack[TrainOptions]) -> RunResult:
    """Fine-tune a model on recorded episodes; without ``data``, on the warm start's demonstrations first.

    The model is in the folder of the result, under ``model``.
    """
    return train(only_stages(config, "sft", data), **options)


def preferences(config: RunConfig, data: Sequence[Path] = (), **options: Unpack[TrainOptions]) -> RunResult:
    """Train a model on preferred and rejected completions, by DPO or the loss of the run's stage.

    The model is in the folder of the result, under ``model``.
    """
    return train(only_stages(config, "preferences", data), **options)


def reward_model(config: RunConfig, data: Sequence[Path] = (), **options: Unpack[TrainOptions]) -> RunResult:
    """Train a reward model of whole episodes on pairs of completions.

    It is in the folder of the result, under ``reward_models``, by the stage's name.
    """
    return train(only_stages(config, "reward_model", data), **options)


def process_reward_model(
    config: RunConfig, data: Sequence[Path] = (), **options: Unpack[TrainOptions]
) -> RunResult:
    """Train a process reward model, which scores steps, on episodes with labelled steps.

    It is in the folder of the result, under ``reward_models``, by the stage's name.
    """
    return train(only_stages(config, "process_reward_model", data), **options)
