"""Value explored episodes by the configured sources of feedback, and keep what each source said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trainer.errors import DataError
from trainer.evolve.selection import ValuedEpisode
from trainer.outcomes.judge_opening import open_judge

from .aggregation import AGGREGATIONS
from .judged import JudgeFeedback
from .people import PeopleFeedback, read_feedback
from .sources import EnvironmentFeedback, RewardFeedback

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainer.config import FeedbackConfig, RewardConfig
    from trainer.types import Trajectory

    from .sources import Feedback, FeedbackSource


JUDGE = "evolve.feedback.judge"
"""The judge's settings in messages."""
Feedbacks: TypeAlias = "Sequence[Feedback | None]"
"""The feedback of all sources on one episode, in their order."""


@dataclass(frozen=True, slots=True)
class FeedbackScope:
    """The iteration whose episodes are valued."""

    number: int
    folder: Path
    """Its folder, for the judge's answers."""
    explored: str
    """File with the texts of its episodes, for messages to people."""
    reward: RewardConfig
    """The run's reward, which the episodes were played with."""


def open_sources(
    config: FeedbackConfig, scope: FeedbackScope, known: Collection[str]
) -> list[FeedbackSource]:
    """Return the sources in the order of the settings. Raises DataError for a bad file, ConfigError for a
    judge without package or rubric.
    """
    openers: dict[str, Callable[[], FeedbackSource]] = {
        "environment": EnvironmentFeedback,
        "reward": lambda: RewardFeedback(scope.reward),
        "judge": lambda: JudgeFeedback(open_judge(config.judge, JUDGE, scope.folder.parent)),
        "people": lambda: _people(config, scope, known),
    }
    return [openers[name]() for name in config.sources]


async def gather_feedback(
    episodes: Sequence[Trajectory], sources: Sequence[FeedbackSource]
) -> Sequence[Feedbacks]:
    """Return the feedback of all sources on each episode. Closes the sources."""
    async with AsyncExitStack() as stack:
        for source in sources:
            stack.push_async_callback(source.close)
        asked = [asyncio.create_task(_asked(each, sources)) for each in episodes]
        try:
            return await asyncio.gather(*asked)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


def value_episodes(
    episodes: Sequence[Trajectory], rows: Sequence[Feedbacks], config: FeedbackConfig, file: Path
) -> tuple[ValuedEpisode, ...]:
    """Return the episodes for which the sources have a value, and write the feedback on all to a file.

    Raises DataError when there is no value for any episode.
    """
    weights = [config.weights.get(name, 1.0) for name in config.sources]
    values = [
        AGGREGATIONS[config.aggregate]([None if each is None else each.value for each in row], weights)
        for row in rows
    ]
    lines = zip(episodes, values, rows, strict=True)
    file.write_text("".join(_line(*line, config.sources) for line in lines), encoding="utf-8")
    valued = tuple(
        ValuedEpisode(each, value) for each, value in zip(episodes, values, strict=True) if value is not None
    )
    if episodes and not valued:
        raise DataError(
            f"none of {len(episodes)} episodes has the feedback of {', '.join(config.sources)} that "
            f"evolve.feedback.aggregate={config.aggregate} needs; {file} has the feedback of each source"
        )
    return valued


async def _asked(episode: Trajectory, sources: Sequence[FeedbackSource]) -> list[Feedback | None]:
    return [await source.give_feedback(episode) for source in sources]


def _line(
    episode: Trajectory, value: float | None, given: Sequence[Feedback | None], names: Sequence[str]
) -> str:
    said = {
        name: None if each is None else {"value": each.value, "comment": each.comment}
        for name, each in zip(names, given, strict=True)
    }
    return json.dumps({"id": episode.id, "value": value, **said}, ensure_ascii=False) + "\n"


def _people(config: FeedbackConfig, scope: FeedbackScope, known: Collection[str]) -> FeedbackSource:
    assert config.people is not None, "the settings are validated"
    if not config.people.exists():
        raise DataError(
            f"evolve.feedback.people: there is no file {config.people} yet; write a row such as "
            f'{{"id": "{scope.number}/0.0", "score": 1}} for each episode that people have looked at, with '
            f"the ids of {scope.explored} behind '{scope.number}/', and resume with --resume"
        )
    return PeopleFeedback(read_feedback(config.people, scope.number, known))
