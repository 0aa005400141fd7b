import pytest

from tests.fakes.recorded import calling, episode, in_sessions, message, with_changed_tools
from trainer.config.selection import LabelsConfig, PairsConfig
from trainer.errors import DataError
from trainer.recorded.pairs import Pairs, make_labels, make_pairs
from trainer.recorded.types import RecordedEpisode


def scored(*scores: float | None, task: str = "t/1") -> list[RecordedEpisode]:
    return [episode(task, str(score), row, score=score) for row, score in enumerate(scores, 1)]


def made(episodes: list[RecordedEpisode], **settings: object) -> Pairs:
    return make_pairs(episodes, PairsConfig.model_validate(settings))


def texts(pairs: Pairs) -> list[tuple[str | None, str | None]]:
    return [(each.chosen[0].content, each.rejected[0].content) for each in pairs.preferences]


def test_the_best_episode_of_a_task_is_paired_with_its_worst() -> None:
    pairs = made([*scored(0.5, 1.0, 0.0), *scored(0.2, 0.8, task="t/2")])
    assert texts(pairs) == [("1.0", "0.0"), ("0.8", "0.2")]
    assert [each.margin for each in pairs.preferences] == pytest.approx([1.0, 0.6])
    assert pairs.preferences[0].prompt == (message("user", "task t/1"),)
    assert pairs.preferences[1].task_id == "t/2"


def test_all_pairs_above_the_margin_come_in_order_of_their_distance() -> None:
    pairs = made(scored(0.0, 0.5, 0.75), kind="all", margin=0.5)
    assert texts(pairs) == [("0.75", "0.0"), ("0.5", "0.0")]


@pytest.mark.parametrize("kind", ["best_worst", "all"])
def test_scores_that_are_exactly_the_margin_apart_are_a_pair(kind: str) -> None:
    assert texts(made(scored(0.7, 0.2), kind=kind, margin=0.5)) == [("0.7", "0.2")]


@pytest.mark.parametrize("kind", ["best_worst", "all"])
def test_episodes_that_rounding_sets_apart_are_equal(kind: str) -> None:
    given = [episode(said="long", step_rewards=(0.1,) * 10), episode(said="short", step_rewards=(1.0,))]
    with pytest.raises(DataError, match="in 1 tasks no two episodes differ enough"):
        made(given, by="return", kind=kind)


def test_an_episode_of_exactly_the_least_value_is_wanted() -> None:
    given = [episode(step_rewards=(0.1,) * 10), episode(step_rewards=(0.9,))]
    made_of = make_labels(given, LabelsConfig(by="return", least=1.0))
    assert [each.desirable for each in made_of] == [True, False]


def test_pairs_of_a_task_are_bounded_and_those_furthest_apart_are_kept() -> None:
    assert texts(made(scored(0.0, 0.5, 0.75), kind="all", per_task=1)) == [("0.75", "0.0")]


@pytest.mark.parametrize(("by", "chosen"), [("return", "long"), ("process", "short")])
def test_pairs_are_by_return_or_by_process_reward(by: str, chosen: str) -> None:
    given = [episode(said="long", step_rewards=(0.4,) * 5), episode(said="short", step_rewards=(0.9,))]
    assert texts(made(given, by=by))[0][0] == chosen


def test_tasks_that_give_no_pair_are_counted() -> None:
    one, other = scored(0.0, 1.0, task="t/5")
    given = [
        *scored(1.0, task="t/1"),
        *scored(0.5, 0.5, task="t/2"),
        episode("t/3", "same", score=0.0),
        episode("t/3", "same", score=1.0),
        episode("t/4", score=0.0),
        episode("t/4", score=1.0, messages=(message("user", "another"), message("assistant", "hm"))),
        one,
        other,
    ]
    pairs = made(given)
    assert len(pairs.preferences) == 1
    assert (pairs.alone, pairs.equal, pairs.same, pairs.differing) == (1, 1, 1, 1)


def test_no_pairs_at_all_is_an_error_with_its_reasons() -> None:
    given = [*scored(1.0), *scored(0.5, 0.6, task="t/2")]
    with pytest.raises(
        DataError, match=r"no pairs: 1 tasks have a single .*; in 1 tasks no two .*margin=0.5"
    ):
        made(given, margin=0.5)


def test_episodes_become_labels() -> None:
    found = make_labels(scored(0.0, 1.0), LabelsConfig())
    assert [each.desirable for each in found] == [False, True]
    assert found[0].completion == (message("assistant", "0.0"),)


def test_labels_of_one_class_are_an_error() -> None:
    with pytest.raises(DataError, match="all 2 labels are true"):
        make_labels(scored(0.5, 1.0), LabelsConfig(least=0.1))


def test_turns_of_an_episode_that_carry_no_loss_carry_none_in_pairs_and_labels() -> None:
    ready, go = message("assistant", "Ready."), message("user", "Go.")
    task = (message("user", "A door."), ready, go)
    given = [
        episode(
            "t/1", row=row, score=score, messages=(*task, message("assistant", said)), skipped=frozenset({1})
        )
        for row, (said, score) in enumerate((("open", 1.0), ("wait", 0.0)), 1)
    ]
    (pair,) = made(given).preferences
    assert pair.chosen[0] == ready
    assert pair.chosen_skipped == pair.rejected_skipped == {0}
    assert [each.skipped for each in make_labels(given, LabelsConfig())] == [{0}, {0}]


def test_episodes_that_a_failure_ended_are_in_no_pair_and_have_no_label() -> None:
    died = episode(said="half", step_rewards=(0.5,), failure_class="sandbox")
    given = [
        *(episode(said=said, step_rewards=(each,)) for said, each in (("good", 1.0), ("bad", 0.0))),
        died,
    ]
    pairs = made(given, by="return", kind="all")
    assert texts(pairs) == [("good", "bad")]
    assert pairs.failed == 1
    labels = make_labels(given, LabelsConfig(by="return"))
    assert [each.completion[0].content for each in labels] == ["good", "bad"]
    with pytest.raises(DataError, match="no pairs: 1 episodes ended by a failure"):
        made([died], by="return")
    with pytest.raises(DataError, match="no label is left: a failure ended every episode"):
        make_labels([died], LabelsConfig(by="return"))


def test_a_task_is_the_same_with_and_without_its_split() -> None:
    given = [
        episode(said="good", environment="code", split="train", score=1.0),
        episode(said="bad", environment="code", score=0.0),
        episode(said="worse", environment="other", score=-1.0),
    ]
    assert texts(made(given)) == [("good", "bad")]


def test_completions_that_differ_in_the_ids_of_calls_alone_say_the_same() -> None:
    given = [calling(f"call_{row}x9", row=row, score=float(row)) for row in (1, 2)]
    with pytest.raises(DataError, match="1 pairs say the same"):
        made(given)


@pytest.mark.parametrize("kind", ["best_worst", "all"])
def test_sessions_are_compared_with_the_same_session_of_another_episode(kind: str) -> None:
    given = [
        *in_sessions("a", "good", "better", score=1.0),
        *in_sessions("b", "bad", "worse", row=2, score=0.0),
        *in_sessions("c", "alone", row=3, score=0.5, failure_class="sandbox"),
    ]
    pairs = made(given, kind=kind)
    assert texts(pairs) == [("good", "bad"), ("better", "worse")]
    assert (pairs.alone, pairs.equal, pairs.differing, pairs.failed) == (0, 0, 0, 1)


def test_a_task_whose_episodes_reached_other_sessions_is_not_alone() -> None:
    given = [*in_sessions("a", "good", "more", score=1.0), *in_sessions("b", "bad", row=2, score=0.0)]
    pairs = made(given)
    assert texts(pairs) == [("good", "bad")]
    assert pairs.alone == 0
    with pytest.raises(DataError, match="no pairs: 1 tasks have a single episode"):
        made(given[:2])


def test_parts_with_changed_tools_are_compared_with_each_other() -> None:
    given = [
        *with_changed_tools("a", "look", "take", score=1.0),
        *with_changed_tools("b", "wait", "sleep", row=2, score=0.0),
    ]
    found = made(given).preferences
    assert [len(each.chosen) for each in found] == [len(each.rejected) for each in found] == [1, 3]
