"""Refuse what an evolution cannot do, and open its sources of feedback, before anything is started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.evolve import EvolvePreferences
from trainer.errors import ConfigError
from trainer.launch.plugin_check import check_plugins
from trainer.launch.preflight import check_machine, check_model
from trainer.models.folders import model_folder
from trainer.outcomes.judge_opening import probe_judge
from trainer.outcomes.opening import check_judge, check_reward_models

from .feedback.people import check_file
from .feedback.values import JUDGE
from .phase_runs import explore_run, preferences_run, train_run

if TYPE_CHECKING:
    from trainer.config import RewardConfig, RunConfig
    from trainer.config.learned_reward import LearnedRewardConfig


def check_evolution(config: RunConfig) -> None:
    """Refuse settings that do not make an evolution. Raises ConfigError."""
    if not config.has_held_out:
        raise ConfigError(
            "an evolution keeps or rolls back by held-out tasks, and there are none; set evaluation.splits, "
            'for example evaluation.splits=["test"], or in a run of several sources held_out of a source'
        )
    if config.checkpoint.push_to is not None:
        raise ConfigError(
            "an evolution pushes no models, since most of its runs train one that may be rolled back: leave "
            f"checkpoint.push_to out, and push {config.folder / 'model'} to {config.checkpoint.push_to} "
            "afterwards, for example by hf upload"
        )
    if config.stages:
        names = ", ".join(stage.name for stage in config.stages)
        raise ConfigError(
            f"an evolution trains by evolve.train and has no stages of its own, and the run has {names}: "
            "leave them out, or run them first and set model.path to the model that they write"
        )
    named = "reward" in config.evolve.feedback.sources
    if named and config.reward.kind == "environment" and not _learned(config.reward):
        raise ConfigError(
            "evolve.feedback.sources names reward, and the run's reward is the environment's: set "
            "reward.kind to a function or judge, or name reward models in reward.learned.models; or take the "
            "source environment"
        )
    # An exploration is a run with settings of its own, which may be wrong for it alone.
    explore_run(config, config.folder, 1, config.folder / "model")


def check_feedback(config: RunConfig, folder: Path) -> None:
    """Open everything that values the episodes of the evolution in a folder, and ask judges for one grade.

    Raises ConfigError, DataError, RewardFailed, JudgeFailed.
    """
    check_plugins(config)
    feedback = config.evolve.feedback
    if "people" in feedback.sources and feedback.people is not None:
        check_file(feedback.people)
    if _learned(config.reward):
        policy = model_folder(config.model, config.root / "models")
        check_reward_models(config.reward, folder, policy)
    check_judge(config.reward, folder)
    if "judge" in feedback.sources:
        asyncio.run(probe_judge(feedback.judge, JUDGE, folder))


def check_training(config: RunConfig, folder: Path) -> None:
    """Check the model and this machine for the training of an iteration, before one is explored for hours.

    Raises ConfigError for a model that cannot be trained as configured, or not here.
    """
    model = model_folder(config.model, config.root / "models")
    data = folder / "data.jsonl"
    if isinstance(config.evolve.train.method, EvolvePreferences):
        run = preferences_run(config, folder, 1, model, data)
    else:
        run = train_run(config, folder, 1, model, data, 1)
    check_model(run.learner_settings, model)
    check_machine(run, model)


def _learned(reward: RewardConfig) -> list[LearnedRewardConfig]:
    return [part for part in (reward.learned, reward.process) if part is not None]
