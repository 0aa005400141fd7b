"""The console's records of training runs are the trainer's, as far as it reads them."""

from dataclasses import asdict, fields, replace

import pytest
from pydantic import TypeAdapter

from sandbox_service.console import run_records
from sandbox_service.console.run_records import RunGroup
from sandbox_service.console.run_views import group_page
from tests.fakes.batches import broken, failure, trajectory
from trainer import types
from trainer.batches.payloads import group_to_json
from trainer.types import GroupSpec, Line, Segment, TaskRef, Trajectory, TrajectoryGroup

COPIES = {
    "WeightSpan": "VersionSpan",
    "RunTurn": "Turn",
    "RunSegment": "Segment",
    "RunLine": "Line",
    "RunFailure": "FailureNote",
    "RunTask": "TaskRef",
    "RunSpec": "GroupSpec",
    "RunEpisode": "Trajectory",
    "RunGroup": "TrajectoryGroup",
}
UNREAD = {
    "RunSegment": {"teacher_logprobs"},
    "RunFailure": {"instance_id", "retry_after_s"},
    "RunTask": {"category", "source"},
    "RunSpec": {"seed", "size", "max_turns", "step", "params"},
    "RunEpisode": {"task", "seed", "outcome", "checked", "timings", "frames"},
}
"""Fields that the console does not show. A new one of the trainer belongs here or in the copy."""
SPEC = GroupSpec(3, TaskRef("code", "tiny", "t/1", "easy"), seed=7, size=2, max_turns=4)


def own(given: Trajectory) -> Segment:
    return given.segments[0]


PLAYED = trajectory(SPEC, 0, points=0.5, turns=2)
OPPOSED = replace(PLAYED, segments=(own(PLAYED), replace(own(PLAYED), opponent=True)))
PARTNERED = replace(PLAYED, segments=(replace(own(PLAYED), partner=True), own(PLAYED)))
FAILED = broken(SPEC, 1, failure("sandbox"))
UNGRADED = replace(PLAYED, score=None, success=None, reward=0.25)


def recorded(*trajectories: Trajectory) -> RunGroup:
    """The group as the console reads what the trainer writes."""
    return TypeAdapter(RunGroup).validate_json(group_to_json(TrajectoryGroup(SPEC, trajectories)))


@pytest.mark.parametrize("copy", COPIES)
def test_a_record_has_each_field_of_the_trainers_that_is_not_left_unread(copy):
    names = {field.name for field in fields(getattr(run_records, copy))}
    unread = UNREAD.get(copy, set())
    assert names | unread == {field.name for field in fields(getattr(types, COPIES[copy]))}
    assert not names & unread


def test_the_values_of_a_group_are_those_that_were_written():
    written = TrajectoryGroup(SPEC, (replace(PLAYED, reward=0.75, terms={"outcome": 0.5}), OPPOSED, FAILED))
    assert_agrees(asdict(recorded(*written.trajectories)), asdict(written))


def assert_agrees(read, written):
    if isinstance(read, dict):
        for name, value in read.items():
            assert_agrees(value, written[name])
    elif isinstance(read, tuple):
        for mine, its in zip(read, written, strict=True):
            assert_agrees(mine, its)
    else:
        assert read == written


@pytest.mark.parametrize(
    "given", [PLAYED, OPPOSED, PARTNERED, FAILED], ids=["alone", "opposed", "partnered", "failed"]
)
def test_turns_and_tokens_of_an_episode_are_the_agents(given):
    (episode,) = recorded(given).trajectories
    agent = given.without_counterpart()
    assert len(episode.turns) == len(agent.turns)
    assert episode.sampled == sum(sum(segment.loss_mask) for segment in agent.segments)


def test_the_mean_reward_is_that_of_the_episodes_with_a_score():
    episodes = [replace(PLAYED, reward=1.0), UNGRADED, FAILED]
    group = recorded(*episodes)
    assert group.mean_reward == 1.0
    assert [each.scored for each in group.trajectories] == [each.scored for each in episodes]
    assert [column.above_mean for column in group_page(group).columns] == [0.0, None, None]


@pytest.mark.parametrize("said", [4, 6], ids=["lines of two turns", "an example among the lines"])
def test_the_lines_of_turns_are_found_as_the_trainer_finds_them(said):
    lines = tuple(Line("user" if place % 2 == 0 else "assistant", "") for place in range(said))
    turns = tuple(replace(turn, line=None) for turn in own(PLAYED).turns)
    given = replace(PLAYED, segments=(replace(own(PLAYED), turns=turns),), lines=lines)
    (column,) = group_page(recorded(given)).columns
    shown = {place for place, line in enumerate(column.lines) if line.facts is not None}
    assert shown == {place for place in given.lines_of_turns() if place is not None}
