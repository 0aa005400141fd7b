"""Groups of a run as recorded episodes."""

from __future__ import annotations

import json

from pydantic_core import to_json

from trainer.recorded.run_rows import read_group_row
from trainer.recorded.types import RowOrigin
from trainer.types import GroupSpec, Line, Segment, StopReason, TaskRef, Trajectory, TrajectoryGroup, Turn

TASK = TaskRef("code", "tiny", "t/1")


def test_rewards_are_in_the_order_of_the_messages() -> None:
    lines = tuple(Line(role, "said") for role in ("user", "assistant", "assistant", "assistant"))
    # A sub-agent's turn between two of its caller's, whose segment ends later.
    turns = [tuple(Turn(1, 2, (), reward=each, line=each) for each in own) for own in ((2,), (1, 3))]
    segments = tuple(Segment((1, 2), (False, True), (0.0, -1.0), own) for own in turns)
    played = Trajectory("4.0", TASK, 0, segments, StopReason.TERMINATED, lines=lines)
    row = json.loads(to_json(TrajectoryGroup(GroupSpec(4, TASK, 0, 1, 8), (played,))))
    (episode,) = read_group_row(row, RowOrigin("trajectories.jsonl", 1))
    assert episode.step_rewards == (1.0, 2.0, 3.0)
