"""The numbers by which recorded episodes are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainer.errors import DataError

if TYPE_CHECKING:
    from trainer.config.selection import Measure

    from .types import RecordedEpisode


def _return(episode: RecordedEpisode) -> float | None:
    return sum(episode.step_rewards) if episode.step_rewards else None


def _process(episode: RecordedEpisode) -> float | None:
    rewards = episode.step_rewards
    return sum(rewards) / len(rewards) if rewards else None


MEASURES: Mapping[Measure, Callable[[RecordedEpisode], float | None]] = {
    "score": lambda episode: episode.score,
    "return": _return,
    "process": _process,
    "success": lambda episode: None if episode.success is None else float(episode.success),
}
"""Each measure of an episode; None where the episode has no such value."""


def measured(
    episodes: Sequence[RecordedEpisode], by: Measure
) -> tuple[tuple[RecordedEpisode, ...], tuple[float, ...]]:
    """Return the episodes that have the value, and their values.

    Raises DataError if none has it, naming the first one and measures that would do.
    """
    read = MEASURES[by]
    found = [(episode, value) for episode in episodes if (value := read(episode)) is not None]
    if episodes and not found:
        others = [
            name for name, other in MEASURES.items() if any(other(each) is not None for each in episodes)
        ]
        hint = (
            f"; use by={' or by='.join(others)}" if others else ", and they have no other value to compare by"
        )
        raise DataError(f"{episodes[0].origin}: none of the {len(episodes)} episodes has a {by}{hint}")
    return tuple(episode for episode, _ in found), tuple(value for _, value in found)


def by_task(episodes: Sequence[RecordedEpisode]) -> Mapping[tuple[str, str], tuple[int, ...]]:
    """Return the places of each task's episodes, tasks in order of first appearance."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, episode in enumerate(episodes):
        places.setdefault(episode.task, []).append(place)
    return {task: tuple(found) for task, found in places.items()}
