import json

import pytest

from trainer.errors import ConfigError
from trainer.evaluate.intervals import equal_tasks_interval, wilson
from trainer.evaluate.results import EpisodeTotals, EvaluationResult, TaskOutcome
from trainer.evaluate.summary import summary_of


def task(name, successes, episodes=4, **more):
    return TaskOutcome(name, "easy", episodes, successes, successes / episodes if episodes else 0.0, **more)


def result(*tasks):
    return EvaluationResult(0, "alone", "test", tasks)


def test_success_and_pass_at_k_are_means_over_tasks():
    summary = summary_of(result(task("a", 4), task("b", 1), task("c", 0)), (1, 2, 4))
    overall = summary.overall
    assert overall.success.value == pytest.approx(5 / 12)
    assert overall.pass_at[1].value == pytest.approx(5 / 12)
    assert overall.pass_at[2].value == pytest.approx((1 + 0.5 + 0) / 3)
    assert overall.pass_at[4].value == pytest.approx(2 / 3)
    assert overall.success.interval.low < 5 / 12 < overall.success.interval.high


def test_a_task_with_too_few_scored_episodes_is_left_out_of_pass_at_k():
    short = task("b", 0, episodes=2, failures=2)
    overall = summary_of(result(task("a", 2), short), (4,)).overall
    assert (overall.pass_at[4].value, overall.pass_at[4].tasks) == (1.0, 1)
    assert overall.success.tasks == 2


def test_a_k_beyond_the_played_episodes_is_refused():
    with pytest.raises(
        ConfigError, match="pass@8 needs at least 8 episodes of a task, and the evaluation played 4"
    ):
        summary_of(result(task("a", 2)), (1, 8))


def test_failed_episodes_are_counted_by_class_and_never_as_unsolved():
    lost = task("b", 0, episodes=0, failures=4, failure_classes={"sandbox": 3, "engine": 1})
    overall = summary_of(result(task("a", 4), lost)).overall
    assert (overall.success.value, overall.episodes, overall.failures) == (1.0, 4, 4)
    assert overall.failure_classes == {"sandbox": 3, "engine": 1}
    assert overall.causes == {}


def test_causes_are_summed_with_the_most_frequent_first():
    overall = summary_of(
        result(
            task("a", 3, causes={"max_turns": 1}),
            task("b", 0, causes={"wrong_answer": 3, "max_turns": 1}),
        )
    ).overall
    assert list(overall.causes.items()) == [("wrong_answer", 3), ("max_turns", 2)]


def test_groups_are_shown_where_there_are_several():
    tasks = (
        task("a", 4, environment="code", split="x", category="sums"),
        task("b", 0, environment="textcraft", split="x", category="sums"),
    )
    summary = summary_of(result(*tasks))
    assert list(summary.sections()) == ["environment"]
    assert summary.by_environment["textcraft"].success.interval == wilson(0, 1)


def test_two_sources_of_one_environment_are_groups():
    tasks = (
        task("a", 4, environment="code", source="plain"),
        task("a", 0, environment="code", source="hard"),
    )
    summary = summary_of(result(*tasks))
    assert list(summary.sections()) == ["source"]
    assert {name: each.success.value for name, each in summary.by_source.items()} == {"plain": 1, "hard": 0}


def test_means_of_cost_are_per_episode():
    costs = EpisodeTotals(reward=2.0, turns=12, tokens=400, seconds=6.0)
    overall = summary_of(result(task("a", 2, totals=costs), task("b", 2, totals=costs))).overall
    assert (overall.reward.value, overall.turns.value) == (0.5, 3.0)
    assert (overall.tokens.value, overall.seconds.value) == (100.0, 1.5)
    assert overall.turns.interval.low == overall.turns.interval.high == 3.0


def test_one_task_has_intervals_of_shares_and_none_of_costs():
    costs = EpisodeTotals(reward=2.0, turns=12, tokens=400, seconds=6.0)
    overall = summary_of(result(task("a", 1, totals=costs)), (1, 2)).overall
    for share in (overall.success, overall.pass_at[1], overall.pass_at[2]):
        assert share.interval == equal_tasks_interval(share.value, 1, least=0.0)
        assert share.interval.low < share.value < share.interval.high
    assert (overall.turns.value, overall.turns.interval) == (3.0, None)


def test_files_of_earlier_versions_have_no_cost():
    overall = summary_of(result(task("a", 2))).overall
    assert (overall.reward, overall.turns, overall.tokens, overall.seconds) == (None,) * 4


def test_without_a_score_there_is_no_rate():
    overall = summary_of(result(task("a", 0, episodes=0, failures=4))).overall
    assert (overall.success, overall.score, overall.pass_at) == (None, None, {})


def test_the_summary_is_json():
    tree = summary_of(result(task("a", 2), task("b", 1)), (1, 2)).tree()
    assert json.loads(json.dumps(tree))["overall"]["pass_at"]["2"]["tasks"] == 2
