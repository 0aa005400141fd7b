"""Open what a run's ``reward.kind`` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_plugins import PluginGroup
from trainer.errors import ConfigError
from trainer.plugins import plugin_function

from .function import FunctionOutcome
from .judge import Judge
from .judge_store import JudgeStore
from .openai_endpoint import OpenaiEndpoint

if TYPE_CHECKING:
    from trainer.config.reward import JudgeConfig, RewardConfig

    from .source import OutcomeSource

_CACHE = "judge.sqlite"


def open_outcomes(config: RewardConfig, folder: Path) -> OutcomeSource | None:
    """Return the source of outcomes of the run in a folder; None where the environment's grade counts.

    Raises ConfigError for a function that cannot be used, and for a judge without package or rubric.
    """
    if config.kind == "environment":
        return None
    if config.kind == "judge":
        judge = config.judge
        store = JudgeStore(Path(judge.cache) if judge.cache is not None else folder / _CACHE, str(folder))
        return Judge(judge, rubric_of(judge), OpenaiEndpoint(judge), store)
    function = plugin_function(PluginGroup.REWARDS, config.kind, config.options)
    return FunctionOutcome(config.kind, function, config.options, config.timeout_s)


def rubric_of(config: JudgeConfig) -> str:
    """Return the rubric's text. Raises ConfigError."""
    if config.rubric_file is None:
        return config.rubric
    try:
        return config.rubric_file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"reward.judge.rubric_file: {config.rubric_file} cannot be read: {error}"
        ) from error
