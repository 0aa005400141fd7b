"""Open a judge with its rubric and its file, and ask it once before anything that takes time starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import ConfigError, JudgeFailed
from trainer.tracking.run_id import read_run_id
from trainer.types import Line, StopReason, TaskRef, Trajectory

from .judge import Judge
from .judge_prompt import grading_messages, score_in
from .judge_store import JudgeStore
from .openai_endpoint import OpenaiEndpoint

if TYPE_CHECKING:
    from trainer.config.reward import JudgeConfig

CACHE = "judge.sqlite"
"""The judge's file in the folder of a run."""
QUESTION, ANSWER = "What is 2 + 2?", "2 + 2 is 4."
"""The episode that a judge is asked about before anything starts."""


def open_judge(config: JudgeConfig, setting: str, folder: Path) -> Judge:
    """Return a judge whose budget is that of the run in a folder, with its answers in a file there.

    Args:
        config: its settings.
        setting: their name in messages, such as ``reward.judge``.
        folder: the run's folder.

    Raises what ``judge_with_budget`` raises.
    """
    return judge_with_budget(config, setting, folder / CACHE, read_run_id(folder) or str(folder))


def judge_with_budget(config: JudgeConfig, setting: str, file: Path, budget: str) -> Judge:
    """Return a judge.

    Args:
        config: its settings.
        setting: their name in messages, such as ``reward.judge``.
        file: file of the answers, unless the settings name one.
        budget: name in that file of what is spent.

    Raises ConfigError without the package ``openai``, and for a rubric or file that cannot be read.
    """
    rubric, endpoint = rubric_of(config, setting), OpenaiEndpoint(config, setting)
    kept = Path(config.cache) if config.cache is not None else file
    return Judge(config, rubric, endpoint, JudgeStore(kept, budget))


def rubric_of(config: JudgeConfig, setting: str) -> str:
    """Return the rubric's text. Raises ConfigError."""
    if config.rubric_file is None:
        return config.rubric
    try:
        return config.rubric_file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{setting}.rubric_file: {config.rubric_file} cannot be read: {error}") from error


async def probe_judge(config: JudgeConfig, setting: str, folder: Path) -> None:
    """Have the judge of a run grade a short episode. Raises ConfigError, JudgeFailed."""
    judge = open_judge(config, setting, folder)
    lines = (Line("user", QUESTION), Line("assistant", ANSWER))
    episode = Trajectory("probe", TaskRef("", "", ""), 0, (), StopReason.TERMINATED, lines=lines)
    least, most = config.least, config.most
    request = grading_messages(episode, rubric_of(config, setting), least, most, config.max_episode_chars)
    try:
        with advised(config, setting):
            await judge.try_once(request, lambda answer: score_in(answer, least, most))
    finally:
        await judge.close()


@contextmanager
def advised(config: JudgeConfig, setting: str) -> Iterator[None]:
    """Add to a failure of the judge in the block what to check. Raises JudgeFailed."""
    try:
        yield
    except JudgeFailed as error:
        raise JudgeFailed(
            f"{error}; the judge was asked for one grade before anything started: check that "
            f"{config.base_url} serves {config.model!r} and that it grades in the form asked for, or change "
            f"{setting}"
        ) from error
