"""Episodes of several sessions and sets of tools, from a store's export to the records of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from sandbox_contract.frames import ConversationFrame
from sandbox_contract.messages import FunctionSchema, Tool
from sandbox_service.trajectories.export import Rows
from sandbox_service.trajectories.parquet import write_parquet
from sandbox_service.trajectories.reader import StoredInstance
from sandbox_service.trajectories.rows import episode_row as exported_row
from tests.fakes.recorded import episode, message
from tests.harness.episodes import create, evaluation, instance, step
from trainer.recorded.bad_rows import RowError
from trainer.recorded.episode_parts import in_parts, whole
from trainer.recorded.episode_rows import read_episode_row
from trainer.recorded.frames import in_frames
from trainer.recorded.types import RowOrigin

OLD, NEW = (Tool(function=FunctionSchema(name=name)) for name in ("old", "new"))
SAID = [("user", "task"), ("assistant", "a"), ("user", "?"), ("assistant", "b"), ("user", "end")]
PLAYED = episode(
    id="i-1",
    messages=tuple(message(*each) for each in SAID),
    tools=(OLD,),
    step_rewards=(0.25, 0.5),
    step_labels={"progress": (0.0, 1.0)},
)


def frame(message: int, first: int, *tools: Tool) -> ConversationFrame:
    return ConversationFrame(message=message, first=first, tools=tools)


def contents(record):
    return [each.content for each in record.messages]


def test_a_session_is_a_record_that_shows_nothing_of_the_earlier_ones():
    first, second = in_frames(PLAYED, [frame(0, 0, OLD), frame(2, 2, OLD)])
    assert (contents(first), contents(second)) == (["task", "a"], ["?", "b", "end"])
    assert [each.content for each in second.earlier] == ["task", "a"]
    assert (first.step_rewards, second.step_rewards) == ((0.25,), (0.5,))
    assert (first.step_labels, second.step_labels) == ({"progress": (0.0,)}, {"progress": (1.0,)})
    assert (first.part, second.part, second.repeated_turns) == (0, 1, 0)
    (again,) = in_parts([first, second])
    assert whole(again).messages == PLAYED.messages


def test_after_a_change_of_tools_the_turns_before_it_are_shown_and_carry_no_loss():
    first, second = in_frames(PLAYED, [frame(0, 0, OLD), frame(2, 0, NEW)])
    assert (first.tools, second.tools) == ((OLD,), (NEW,))
    assert contents(second) == contents(PLAYED)
    assert (second.skipped, second.repeated_turns) == (frozenset({1}), 1)
    assert second.step_rewards == (0.25, 0.5)


def test_a_frame_without_a_turn_is_no_record():
    assert [each.part for each in in_frames(PLAYED, [frame(0, 0, OLD), frame(4, 4, NEW)])] == [0]


def test_turns_without_loss_stay_so():
    skipping = replace(PLAYED, skipped=frozenset({3}))
    first, second = in_frames(skipping, [frame(0, 0), frame(2, 2)])
    assert (first.skipped, second.skipped) == (frozenset(), frozenset({1}))


@pytest.mark.parametrize("frames", [[frame(1, 0)], [frame(0, 0), frame(9, 0)], [frame(0, 0), frame(2, 3)]])
def test_frames_that_are_not_those_of_the_messages_are_refused(frames):
    with pytest.raises(RowError, match="frames: "):
        in_frames(PLAYED, frames)


EVENTS = [
    create(),
    step(sequence=1, index=0, info={"new_session": True}),
    step(sequence=2, index=1, info={"tools": [NEW.model_dump()]}),
    step(sequence=3, index=2, terminated=True),
    evaluation(sequence=4, score=1.0),
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_export_of_sessions_and_changed_tools_is_read_as_the_agent_saw_it(tmp_path: Path, kind: str):
    row = exported_row(StoredInstance(instance(), None, None), EVENTS)
    if kind == "parquet":
        write_parquet(tmp_path / "rows.parquet", Rows.EPISODES, iter([row]))
        (row,) = pyarrow.parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    records = read_episode_row(row, RowOrigin("rows", 1))
    assert [contents(each) for each in records] == [
        ["Say something.", "step 0"],
        ["word 0", "step 1"],
        ["word 0", "step 1", "word 1", "step 2", "word 2"],
    ]
    assert [[tool.function.name for tool in each.tools] for each in records] == [["say"], ["say"], ["new"]]
    assert [each.score for each in records] == [1.0] * 3


def test_an_export_of_one_session_has_no_frames():
    row = exported_row(StoredInstance(instance(), None, None), [create(), step()])
    assert "frames" not in row
    assert len(read_episode_row(row, RowOrigin("rows", 1))) == 1
