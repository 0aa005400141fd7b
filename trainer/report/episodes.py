"""Prepare episodes for the report's viewer: messages, rewards and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from trainer.types import TrajectoryGroup

from .sampling import chosen_groups, spread
from .speech import MOST_OF_A_PART, parts_of

if TYPE_CHECKING:
    from trainer.types import Segment, Trajectory, Turn

    from .figure import JsonTree


_MOST_CHARACTERS = 10_000_000
"""Limit of characters of all messages on a page."""
_GROUPS: TypeAdapter[TrajectoryGroup] = TypeAdapter(TrajectoryGroup)


def shown_episodes(
    file: Path, steps_of_groups: Mapping[int, int], most: int, tool_format: str = "text"
) -> tuple[list[JsonTree], int]:
    """Return about ``most`` episodes, group by group, and the number of groups that the run played.

    There are fewer when they are so long that the page would be too large. ``tool_format`` is the model's
    notation of calls.
    """
    parsed, count = chosen_groups(file, most)
    groups = list(_valid(parsed))
    while len(groups) > 1 and sum(map(_characters, groups)) > _MOST_CHARACTERS:
        groups = spread(groups, len(groups) * 3 // 4)
    shown = [
        _episode(group.spec.index, steps_of_groups.get(group.spec.index), trajectory, tool_format)
        for group in groups
        for trajectory in group.trajectories
    ]
    return shown, count


def _characters(group: TrajectoryGroup) -> int:
    lines = [line for trajectory in group.trajectories for line in trajectory.lines]
    return sum(min(len(line.content), MOST_OF_A_PART) for line in lines)


def _valid(groups: list[JsonTree]) -> Iterator[TrajectoryGroup]:
    for group in groups:
        try:
            yield _GROUPS.validate_python(group)
        except ValidationError:
            continue  # written by another version of the trainer


def _episode(group: int, step: int | None, trajectory: Trajectory, tool_format: str) -> JsonTree:
    task, failure, timings = trajectory.task, trajectory.failure, trajectory.timings
    return {
        "id": trajectory.id,
        "group": group,
        "step": step,
        "task": task.task_id,
        "split": task.split,
        "difficulty": task.difficulty,
        "stop": trajectory.stop.value,
        "score": trajectory.score,
        "success": trajectory.success,
        "failure": None
        if failure is None
        else {
            "class": failure.failure_class,
            "code": failure.code,
            "phase": failure.phase,
            "detail": failure.detail,
        },
        "reward": _short(trajectory.reward),
        "terms": {name: _short(value) for name, value in trajectory.terms.items()},
        "weight": trajectory.weight,
        "attempts": trajectory.attempts,
        "drifted": trajectory.drifted,
        "segments": len(trajectory.segments),
        "tokens": sum(len(segment.token_ids) for segment in trajectory.segments),
        "sampled": sum(sum(segment.loss_mask) for segment in trajectory.segments),
        "seconds": {
            "waiting": _short(timings.waiting_s),
            "sampling": _short(timings.sampling_s),
            "sandbox": _short(timings.sandbox_s),
            "grading": _short(timings.grading_s),
        },
        "turns": [_turn(segment, turn) for segment in trajectory.segments for turn in segment.turns],
        "lines": [[line.role, parts_of(line.role, line.content, tool_format)] for line in trajectory.lines],
    }


def _turn(segment: Segment, turn: Turn) -> JsonTree:
    logprobs = segment.logprobs[turn.start : turn.end]
    return {
        "tokens": turn.end - turn.start,
        "logprob": _short(sum(logprobs) / len(logprobs)) if logprobs else None,
        "versions": sorted({span.version for span in turn.versions}),
        "reward": _short(turn.reward),
        "terms": {name: _short(value) for name, value in turn.terms.items()},
        "cut": turn.cut,
        "sampling": _short(turn.sampling_s),
        "sandbox": _short(turn.sandbox_s),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")
