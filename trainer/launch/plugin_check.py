"""Load the plugins that a run names before anything is started, so that a broken one is an error at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sandbox_plugins import PluginGroup
from trainer.chat.tool_formats import tool_format
from trainer.config.algorithm import PluginAdvantage, PluginLoss
from trainer.errors import ConfigError
from trainer.outcomes.judge_opening import rubric_of
from trainer.plugins import plugin_function

if TYPE_CHECKING:
    from trainer.config import RunConfig


def check_plugins(config: RunConfig) -> None:
    """Load each plugin and bind its options. Raises ConfigError, naming the setting."""
    advantage, loss, reward = config.algorithm.advantage, config.algorithm.loss, config.reward
    _check("chat.tool_format", lambda: tool_format(config.chat.tool_format))
    if isinstance(advantage, PluginAdvantage):
        _check_function("algorithm.advantage", PluginGroup.ADVANTAGES, advantage)
    if isinstance(loss, PluginLoss):
        _check_function("algorithm.loss", PluginGroup.LOSSES, loss)
    if reward.kind == "judge":
        rubric_of(reward.judge, "reward.judge")
    elif reward.kind != "environment":
        _check("reward.kind", lambda: plugin_function(PluginGroup.REWARDS, reward.kind, reward.options))
    for tracker in config.tracking.plugins:
        load = partial(plugin_function, PluginGroup.TRACKERS, tracker.kind, tracker.options)
        _check("tracking.plugins", load)


def _check_function(setting: str, group: PluginGroup, config: PluginAdvantage | PluginLoss) -> None:
    _check(setting, lambda: plugin_function(group, config.kind, config.options))


def _check(setting: str, load: Callable[[], object]) -> None:
    try:
        load()
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from error
