"""Rows of the ``trajectories.jsonl`` in a run's folder: the episodes of one group.

They are read as text, as the run displayed it. The run's tokens are left aside, since another model has
tokens of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from sandbox_contract.messages import Message
from trainer.types import StopReason, TrajectoryGroup

from .bad_rows import RowError
from .fields import check_conversation
from .types import RecordedEpisode

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from trainer.types import Trajectory, Turn

    from .types import RowOrigin

_GROUPS = TypeAdapter(TrajectoryGroup)
_ROLES = ("system", "user", "assistant", "tool")
_CUT_OFF = (StopReason.TRUNCATED, StopReason.HORIZON, StopReason.CONTEXT_FULL, StopReason.TIME_LIMIT)


def read_group_row(row: JsonObject, origin: RowOrigin) -> tuple[RecordedEpisode, ...]:
    """Return the episodes of a group, without those that failed before the first turn. Raises RowError."""
    try:
        group = _GROUPS.validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RowError(f"{place}: {first['msg']}") from None
    return tuple(
        replace(recorded_episode(each, origin), seed=group.spec.seed)
        for each in group.trajectories
        if not (each.failure and not each.turns)
    )


def recorded_episode(trajectory: Trajectory, origin: RowOrigin) -> RecordedEpisode:
    """Return a played episode as text. Raises RowError for one without a turn."""
    # Notes of other roles, such as an agent's error or a counterpart's own view, were not said to the model.
    messages = tuple(
        Message.model_validate({"role": line.role, "content": line.content})
        for line in trajectory.lines
        if line.role in _ROLES
    )
    try:
        check_conversation(messages)
    except RowError as error:
        raise type(error)(f"episode {trajectory.id}: {error}") from None
    failure = trajectory.failure
    turns = sorted(trajectory.without_opponent().turns, key=_place)
    return RecordedEpisode(
        messages=messages,
        origin=origin,
        id=trajectory.id,
        environment=trajectory.task.environment,
        split=trajectory.task.split,
        task_id=trajectory.task.task_id,
        score=trajectory.score if trajectory.outcome is None else trajectory.outcome,
        success=trajectory.success,
        step_rewards=tuple(turn.reward for turn in turns),
        failure_class=failure.failure_class if failure is not None else "",
        truncated=trajectory.stop in _CUT_OFF,
        format_errors=sum(turn.terms.get("well_formed", 1.0) == 0 for turn in turns),
    )


def _place(turn: Turn) -> float:
    return math.inf if turn.line is None else turn.line
