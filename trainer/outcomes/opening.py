"""Open what a run's ``reward`` names: outcomes by function or judge, and reward models."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_plugins import PluginGroup
from trainer.config.learned_reward import STAGE_MODELS, ProcessRewardConfig
from trainer.plugins import plugin_function
from trainer.reward_models.opening import ModelOpener

from .function import FunctionOutcome
from .judge_opening import open_judge, probe_judge
from .learned import LearnedRewards
from .player import OutcomeRewards

if TYPE_CHECKING:
    from trainer.config.reward import RewardConfig

    from .player import EpisodeRewards
    from .refreshed import RefreshedRewards
    from .source import OutcomeSource

_REFRESHED = ".refreshed"
"""Folder of refreshed models; no stage has such a name."""


def open_rewards(config: RewardConfig, folder: Path, policy: Path) -> Iterator[EpisodeRewards]:
    """Yield the sources of reward of the run in a folder, other than the environment's grade.

    ``policy`` is the folder of its model. Raises what ``open_outcomes`` raises.
    """
    outcomes = open_outcomes(config, folder)
    if outcomes is not None:
        yield OutcomeRewards(outcomes)
    yield from open_learned(config, folder, policy)


def open_outcomes(config: RewardConfig, folder: Path) -> OutcomeSource | None:
    """Return the source of outcomes of the run in a folder; None where the environment's grade counts.

    Raises ConfigError for a function that cannot be used, and for a judge without package or rubric.
    """
    if config.kind == "environment":
        return None
    if config.kind == "judge":
        return open_judge(config.judge, "reward.judge", folder)
    function = plugin_function(PluginGroup.REWARDS, config.kind, config.options)
    return FunctionOutcome(config.kind, function, config.options, config.timeout_s)


def open_learned(
    config: RewardConfig, folder: Path, policy: Path
) -> tuple[LearnedRewards | RefreshedRewards, ...]:
    """Return the rewards by trained models of the run in a folder; ``policy`` is the folder of its model.

    The models themselves are opened with the first episode.
    """
    found: list[LearnedRewards | RefreshedRewards] = []
    for settings in (config.learned, config.process):
        if settings is not None:
            key = os.environ.get(settings.api_key_variable)
            opener = ModelOpener(folder, policy, settings.reads, settings.timeout_s, key)
            if isinstance(settings, ProcessRewardConfig) and settings.refresh is not None:
                # Loads torch, which most runs do not need in this process.
                from .refreshed import RefreshedRewards

                refreshed = folder / STAGE_MODELS / _REFRESHED
                found.append(RefreshedRewards(settings, settings.refresh, refreshed, opener.open_model))
            else:
                found.append(LearnedRewards(settings, opener.open_model))
    return tuple(found)


def check_reward_models(config: RewardConfig, folder: Path, policy: Path) -> None:
    """Open the reward models that exist before the run, and close them. Raises ConfigError, RewardFailed."""
    for learned in open_learned(config, folder, policy):
        asyncio.run(learned.check_models())


def check_judge(config: RewardConfig, folder: Path) -> None:
    """Ask the judge of the run in a folder once, if it has one. Raises ConfigError, JudgeFailed."""
    if config.kind == "judge":
        asyncio.run(probe_judge(config.judge, "reward.judge", folder))
