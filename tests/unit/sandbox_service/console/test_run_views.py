"""The pages of a step and a group: memory for one group, bars of rewards, and where episodes differ first."""

import json
import tracemalloc

import pytest

from sandbox_service.console.run_folder import TrainingRun
from sandbox_service.console.run_records import (
    RunEpisode,
    RunFailure,
    RunGroup,
    RunLine,
    RunSegment,
    RunSpec,
    RunTask,
    RunTurn,
)
from sandbox_service.console.run_views import group_page, step_page


def group(*episodes):
    """A group of episodes with a reward and messages each; one without a reward failed."""
    played = [
        RunEpisode(
            f"5.{number}",
            lines=tuple(RunLine(*line) for line in said),
            score=reward,
            reward=reward or 0.0,
            failure=RunFailure("sandbox", "sandbox_lost") if reward is None else None,
        )
        for number, (reward, said) in enumerate(episodes)
    ]
    return RunGroup(RunSpec(5, RunTask("code", "t")), tuple(played))


ASKED, RIGHT, WRONG = ("user", "1 + 1?"), ("assistant", "2"), ("assistant", "3")


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ([[ASKED, RIGHT], [ASKED, WRONG]], 1),
        ([[ASKED, RIGHT], [ASKED]], 1),
        ([[ASKED, RIGHT], [ASKED, RIGHT]], None),
        ([[ASKED], []], 0),
        ([[]], None),
    ],
    ids=["other words", "one ended", "alike", "one has none", "none"],
)
def test_the_first_difference_is_the_first_message_that_not_all_have(said, first):
    assert group_page(group(*((0.0, lines) for lines in said))).divergence == first


def test_bars_begin_at_zero_and_share_the_scale_of_the_group():
    page = group_page(group((1.0, []), (-0.5, []), (0.25, []), (None, [])))
    bars = [
        [(part.kind, round(part.start, 1), round(part.width, 1)) for part in each.bar]
        for each in page.columns
    ]
    assert bars == [[("idle", 33.3, 66.7)], [("queue", 0.0, 33.3)], [("idle", 33.3, 16.7)], []]


def test_a_group_without_rewards_has_empty_bars():
    (column,) = group_page(group((0.0, []))).columns
    assert [(part.start, part.width) for part in column.bar] == [(0.0, 0.0)]


@pytest.mark.parametrize(
    ("segments", "rewards"),
    [
        ([[(2, 1.0)], [(1, 2.0), (4, 3.0)]], [None, 2.0, 1.0, None, 3.0]),
        ([[(None, 1.0)], [(None, 2.0), (None, 3.0)]], [None, 1.0, 2.0, None, 3.0]),
        ([[(None, 1.0), (None, 2.0)]], [None] * 5),
        ([[(4, 1.0)], [(None, 2.0)]], [None, None, None, None, 1.0]),
    ],
    ids=["a sub-agent", "an earlier record", "an earlier record with examples", "a counterpart"],
)
def test_the_facts_of_a_turn_are_under_its_message(segments, rewards):
    said = (RunLine(role, "") for role in ("user", "assistant", "assistant", "tool", "assistant"))
    episode = RunEpisode(
        "5.0",
        tuple(
            RunSegment(
                (1,), (True,), (-1.0,), tuple(RunTurn(0, 1, reward=each, line=line) for line, each in own)
            )
            for own in segments
        ),
        lines=tuple(said),
    )
    (column,) = group_page(RunGroup(RunSpec(5, RunTask("code", "t")), (episode,))).columns
    assert [line.facts and line.facts.turn.reward for line in column.lines] == rewards


def test_a_step_holds_the_tokens_of_one_group_at_a_time(tmp_path):
    segment = {"token_ids": [1] * 5000, "loss_mask": [True] * 5000, "logprobs": [-0.5] * 5000}
    turns = [{"start": 0, "end": 5000}]
    with (tmp_path / "trajectories.jsonl").open("w") as lines:
        for index in range(12):
            episode = {
                "id": f"{index}.0",
                "segments": [{**segment, "turns": turns}],
                "score": 1.0,
                "reward": 1.0,
            }
            spec = {"index": index, "task": {"environment": "code", "task_id": "t"}}
            lines.write(json.dumps({"spec": spec, "trajectories": [episode] * 4}) + "\n")
    consumed = {"step": 0, "trajectories": [f"{index}.0" for index in range(13)]}
    (tmp_path / "consumed.jsonl").write_text(json.dumps(consumed) + "\n")
    run = TrainingRun(tmp_path)
    tracemalloc.start()
    run.group(0)
    _, of_one = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    page = step_page(run, 0)
    _, of_all = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(row.spec.index, row.mean_reward) for row in page.groups] == [(index, 1.0) for index in range(12)]
    assert {(each.turns, each.sampled) for row in page.groups for each in row.episodes} == {(1, 5000)}
    assert page.missing == (12,)
    assert of_all < 2 * of_one
