import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.recorded import calling, episode, in_sessions, message, with_changed_tools
from trainer.config.recorded import RecordedFiles
from trainer.config.selection import SelectionConfig
from trainer.errors import DataError
from trainer.recorded.episode_rows import write_episodes
from trainer.recorded.reading import read_episodes
from trainer.recorded.selection import select
from trainer.recorded.types import RecordedEpisode


def scored(*scores: float | None, task: str = "t/1") -> list[RecordedEpisode]:
    return [episode(task, f"turn {row}", row, score=score) for row, score in enumerate(scores, 1)]


def rows(episodes: list[RecordedEpisode], **settings: object) -> list[int | str]:
    found = select(episodes, SelectionConfig.model_validate(settings)).episodes
    return [each.origin.row for each in found]


def weights(episodes: list[RecordedEpisode], **settings: object) -> list[float]:
    config = SelectionConfig.model_validate({"weights": settings})
    return [each.weight for each in select(episodes, config).episodes]


def test_without_settings_every_episode_is_kept_with_its_weight() -> None:
    given = [*scored(None, 1.0), episode(row=3, weight=0.5)]
    assert select(given, SelectionConfig()).episodes == tuple(given)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ({"kind": "threshold", "least": 0.5}, [2, 4, 5]),
        ({"kind": "top_share", "share": 0.4}, [2, 4]),
        ({"kind": "top_share", "share": 0.01}, [2]),
        ({"kind": "percentiles", "low": 50, "high": 75}, [4, 5]),
        ({"kind": "ranking", "best": 2}, [2, 4]),
    ],
)
def test_rules_select_by_score(rule: dict[str, object], kept: list[int]) -> None:
    assert rows(scored(0.1, 1.0, 0.2, 0.9, 0.5), rule=rule) == kept


def test_an_episode_exactly_at_a_percentile_is_kept() -> None:
    given = scored(*(place / 100 for place in range(101)))
    assert rows(given, rule={"kind": "percentiles", "low": 29, "high": 57}) == [*range(30, 59)]


def test_rules_within_a_task_keep_some_of_every_task() -> None:
    given = [*scored(0.9, 0.8), *(episode("t/2", f"other {row}", row, score=row / 10) for row in (3, 4))]
    assert rows(given, rule={"kind": "ranking"}) == [1, 4]
    assert rows(given, rule={"kind": "top_share", "share": 0.5, "within": "task"}) == [1, 4]
    assert rows(given, rule={"kind": "top_share", "share": 0.5}) == [1, 2]


@pytest.mark.parametrize(("by", "kept"), [("return", [1]), ("process", [2]), ("success", [3])])
def test_episodes_are_compared_by_the_chosen_value(by: str, kept: list[int]) -> None:
    given = [
        episode(said="a", row=1, step_rewards=(0.5, 0.5, 0.5), success=False),
        episode(said="b", row=2, step_rewards=(1.0,), success=False),
        episode(said="c", row=3, step_rewards=(0.0,), success=True),
    ]
    assert rows(given, by=by, rule={"kind": "ranking"}) == kept


def test_episodes_without_the_value_are_dropped_and_counted() -> None:
    found = select(scored(None, 1.0), SelectionConfig.model_validate({"rule": {"kind": "threshold"}}))
    assert [each.origin.row for each in found.episodes] == [2]
    assert found.dropped == {"no score": 1}


def test_a_value_that_no_episode_has_is_an_error_that_names_others() -> None:
    given = [episode(step_rewards=(1.0,))]
    with pytest.raises(DataError, match=r"rows.jsonl:1: none of the 1 episodes has a score; use by=return"):
        rows(given, rule={"kind": "threshold"})


def test_a_selection_that_keeps_nothing_says_why() -> None:
    given = [episode(failure_class="timeout"), *scored(0.1)]
    with pytest.raises(DataError, match="keeps none of 2 episodes: 1 failure: timeout, 1 rule threshold"):
        rows(given, rule={"kind": "threshold"})


TALK = (message("user", "?"), message("assistant", "a"), message("user", "?"), message("assistant", " "))


@pytest.mark.parametrize(
    ("bad", "quality", "reason"),
    [
        ({"failure_class": "sandbox"}, {}, "failure: sandbox"),
        ({"failure_class": "sandbox"}, {"failures": ["agent"]}, "failure: sandbox"),
        ({"messages": TALK}, {}, "empty turns"),
        ({"messages": TALK}, {"max_empty_turns": 1, "max_turns": 1}, "too many turns"),
        ({}, {"min_turns": 2}, "too few turns"),
        ({"said": "x" * 100}, {"max_chars": 99}, "too long"),
        ({"format_errors": 2}, {"max_format_errors": 1}, "format errors"),
        ({"truncated": True}, {"truncated": False}, "truncated"),
    ],
)
def test_quality_filters_drop_with_a_reason(
    bad: dict[str, object], quality: dict[str, object], reason: str
) -> None:
    good = episode("t/2", row=2, messages=(*TALK[:3], message("assistant", "b")))
    config = SelectionConfig.model_validate({"quality": {"max_turns": 2, **quality}})
    if quality.get("max_turns") == 1:
        good = episode("t/2", row=2)
    found = select([episode(**bad), good], config)
    assert [each.origin.row for each in found.episodes] == [2]
    assert found.dropped == {reason: 1}


def test_a_failure_class_may_be_kept() -> None:
    assert rows([episode(failure_class="agent")], quality={"failures": ["agent"]}) == [1]


def test_of_exact_duplicates_the_best_is_kept() -> None:
    given = [episode(row=1, score=0.0), episode(row=2, score=1.0), episode("t/2", row=3)]
    assert rows(given, deduplicate={"kind": "exact"}) == [2, 3]


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_of_duplicates_one_that_was_graded_is_kept(kind: str) -> None:
    assert rows([episode(row=1), episode(row=2, score=-1.0)], deduplicate={"kind": kind}) == [2]


def test_exact_duplicates_may_differ_in_the_ids_of_calls() -> None:
    given = [calling(f"call_{row}x9", row=row, score=float(row)) for row in (1, 2)]
    assert rows(given, deduplicate={"kind": "exact"}) == [2]


LONG = "open the red door then walk north past the table and take the small golden key from the shelf"


def test_of_near_duplicates_the_best_is_kept_and_other_tasks_are_left_alone() -> None:
    given = [
        episode(said=LONG, row=1, score=0.0),
        episode(said=f"{LONG.upper()}!", row=2, score=1.0),
        episode(said=" ".join(reversed(LONG.split())), row=3, score=0.0),
        episode("t/2", LONG, row=4, score=0.0),
    ]
    assert rows(given, deduplicate={"kind": "near", "words": 3}) == [2, 3, 4]


def test_softmax_weights_follow_the_formula_and_have_the_mean_1() -> None:
    found = weights(scored(0.0, 1.0), kind="softmax", temperature=0.5)
    assert found == pytest.approx([2 / (1 + math.exp(2)), 2 * math.exp(2) / (1 + math.exp(2))])


def test_softmax_weights_within_tasks_give_every_task_the_same_weight() -> None:
    given = [*scored(0.0, 1.0), *scored(5.0, 6.0, task="t/2")]
    found = weights(given, kind="softmax", within="task")
    assert found[:2] == pytest.approx(found[2:])
    assert sum(found) == pytest.approx(4)


def test_a_small_temperature_does_not_overflow() -> None:
    assert weights(scored(0.0, 1000.0), kind="softmax", temperature=1e-3) == [0.0, 2.0]


def test_rank_weights_fall_linearly_and_equal_episodes_share_a_rank() -> None:
    assert weights(scored(0.2, 0.9, 0.5), kind="rank") == pytest.approx([0.5, 1.5, 1.0])
    assert weights(scored(0.5, 0.5), kind="rank") == pytest.approx([1.0, 1.0])


def test_uniform_weights_replace_those_of_the_files() -> None:
    assert weights([episode(weight=0.5)], kind="uniform") == [1.0]


def test_a_record_that_is_given_twice_is_two_episodes() -> None:
    (given,) = scored(1.0)
    assert rows([given, given]) == [1, 1]


@pytest.mark.parametrize("played", [in_sessions, with_changed_tools])
def test_all_parts_of_an_episode_are_kept_or_none(played: Callable[..., list[RecordedEpisode]]) -> None:
    given = [
        *played("a", "look", "wait", row=1, score=0.0),
        *played("b", "look", "take", row=2, score=1.0),
        *played("c", "look", "take", row=3, score=0.5),
    ]
    assert rows(given, rule={"kind": "ranking"}) == [2, 2]
    assert rows(given, rule={"kind": "top_share", "share": 0.67}) == [2, 2, 3, 3]
    assert rows(given, deduplicate={"kind": "exact"}) == [1, 1, 2, 2]
    found = select(given, SelectionConfig.model_validate({"rule": {"kind": "threshold", "least": 0.6}}))
    assert found.dropped == {"rule threshold": 2}
    assert list(found.episodes) == given[2:4]


def test_an_episode_of_several_sessions_is_weighed_once() -> None:
    given = [
        *in_sessions("a", "look", "wait", "wait", row=1, score=0.2),
        *in_sessions("b", "look", row=2, score=0.9),
        *in_sessions("c", "take", row=3, score=0.5),
    ]
    assert weights(given, kind="rank") == pytest.approx([0.5] * 3 + [1.5, 1.0])


def test_the_return_of_an_episode_is_that_of_all_its_sessions() -> None:
    first, second = in_sessions("a", "look", "take")
    given = [
        replace(first, step_rewards=(0.5,)),
        replace(second, step_rewards=(0.5,)),
        episode(row=2, step_rewards=(0.75,)),
    ]
    assert rows(given, by="return", rule={"kind": "ranking"}) == [1, 1]


def test_steps_before_a_change_of_tools_count_once_in_the_return() -> None:
    first, second = with_changed_tools("a", "look", "take")
    given = [
        replace(first, step_rewards=(0.5,)),
        replace(second, step_rewards=(0.5, 0.25)),
        episode(row=2, step_rewards=(1.0,)),
    ]
    assert rows(given, by="return", rule={"kind": "threshold", "least": 1.0}) == [2]
    assert rows(given, by="return", rule={"kind": "threshold", "least": 0.75}) == [1, 1, 2]


def test_an_episode_of_several_sessions_stays_one_in_a_written_selection(tmp_path: Path) -> None:
    given = [*in_sessions("a", "look", "wait", score=0.2), *in_sessions("b", "look", "take", score=0.9)]
    file = tmp_path / "selected.jsonl"
    write_episodes(file, select(given, SelectionConfig()).episodes)
    again = list(read_episodes(RecordedFiles(files=(file,))))
    assert rows(again, rule={"kind": "ranking"}) == [3, 4]
