import json
from dataclasses import replace

import pytest

from trainer.errors import ConfigError, DataError
from trainer.evaluate.model_comparison import compare_models
from trainer.evaluate.results import EpisodeTotals, EvaluationResult, TaskOutcome
from trainer.report.model_comparison_text import remarks


def result(successes, *, episodes=1, split="test", first=0, **more):
    tasks = tuple(
        TaskOutcome(
            f"t{first + number}",
            "",
            episodes,
            count,
            count / episodes,
            environment="code",
            split=split,
            **more,
        )
        for number, count in enumerate(successes)
    )
    return EvaluationResult(0, "alone", split, tasks, "code")


def test_each_pair_is_compared_on_the_same_tasks():
    comparison = compare_models(
        {"a": result([0] * 20), "b": result([1] * 10 + [0] * 10), "c": result([1] * 19 + [0])}
    )
    assert [(pair.first, pair.second) for pair in comparison.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    ab, ac, bc = comparison.pairs
    assert (ab.difference, ab.wins, ab.losses, ab.test) == (0.5, 10, 0, "McNemar")
    assert ab.p_value == pytest.approx(2 / 2**10)
    assert ac.interval.low > 0.7
    assert bc.difference == pytest.approx(0.45)
    # Holm: the smallest of three is multiplied by 3, and no later one falls below an earlier one.
    assert ac.adjusted == pytest.approx(3 * ac.p_value)
    assert ac.adjusted <= ab.adjusted <= bc.adjusted
    assert all(pair.significant for pair in comparison.pairs)


def test_two_evaluations_of_one_model_show_no_difference():
    (pair,) = compare_models({"a": result([0, 1, 1, 0]), "b": result([0, 1, 1, 0])}).pairs
    assert (pair.difference, pair.p_value, pair.significant) == (0.0, 1.0, False)


def test_several_episodes_per_task_are_tested_by_task():
    comparison = compare_models({"a": result([0, 4], episodes=8), "b": result([8, 4], episodes=8)})
    (pair,) = comparison.pairs
    assert (pair.test, pair.wins, pair.losses) == ("sign test", 1, 0)
    assert comparison.ks == (1, 8)
    assert comparison.models["a"].pass_at[8].value == 0.5


def test_tasks_that_only_some_have_are_named_and_left_out():
    comparison = compare_models({"a": result([0, 1, 1]), "b": result([1, 1], first=1)})
    assert comparison.tasks == 2
    assert comparison.missing == {"b": ("code/test/t0",)}
    assert list(comparison.rates) == ["code/test/t1", "code/test/t2"]


def test_a_task_whose_episodes_all_failed_is_missing_and_not_unsolved():
    lost = TaskOutcome("t0", "", 0, 0, 0.0, failures=1, environment="code", split="test")
    other = replace(result([1, 1]), tasks=(lost, *result([1], first=1).tasks))
    comparison = compare_models({"a": result([1, 1]), "b": other})
    assert (comparison.tasks, comparison.models["b"].success.value) == (1, 1.0)
    assert comparison.missing == {"b": ("code/test/t0",)}


def test_lost_episodes_of_hard_tasks_shift_no_figure():
    totals = {"totals": EpisodeTotals(None, 4, 40, 4.0)}
    easy, hard = result([4] * 2, episodes=4, **totals), result([0] * 2, episodes=4, first=2, **totals)
    a = replace(easy, tasks=easy.tasks + hard.tasks)
    lost = [
        replace(task, episodes=1, failures=3, totals=EpisodeTotals(None, 1, 10, 1.0)) for task in hard.tasks
    ]
    comparison = compare_models({"a": a, "b": replace(easy, tasks=(*easy.tasks, *lost))}, (1, 4))
    whole, part = comparison.models["a"], comparison.models["b"]
    assert (part.success, part.score, part.tokens) == (whole.success, whole.score, whole.tokens)
    assert part.success.value == whole.score == 0.5
    assert comparison.pairs[0].difference == 0.0
    assert part.pass_at == whole.pass_at
    assert (whole.pass_at[1].tasks, whole.pass_at[4].tasks, whole.pass_at[4].value) == (4, 2, 1.0)
    said = "pass@4 is over the 2 tasks of which all models have 4 episodes with a score."
    assert said in list(remarks(comparison))


def test_evaluations_of_different_splits_are_refused():
    with pytest.raises(DataError, match="a is of code/test, and b is of code/train: compare"):
        compare_models({"a": result([1]), "b": result([1], split="train")})


def test_one_evaluation_is_no_comparison():
    with pytest.raises(ConfigError, match="at least two"):
        compare_models({"a": result([1])})


def test_no_common_task_is_an_error():
    with pytest.raises(DataError, match="no task in common"):
        compare_models({"a": result([1]), "b": result([1], first=1)})


def test_a_k_beyond_the_episodes_names_the_evaluation():
    with pytest.raises(ConfigError, match="pass@4 needs at least 4 episodes of a task, and a has 1"):
        compare_models({"a": result([1]), "b": result([1])}, (4,))


def test_a_file_of_an_earlier_version_is_compared_with_a_later_one():
    old = EvaluationResult(0, "alone", "test", (TaskOutcome("t0", "", 1, 0, 0.0),), "code")
    comparison = compare_models({"old": old, "new": result([1], totals=EpisodeTotals(1.0, 2, 30, 4.0))})
    assert comparison.pairs[0].difference == 1.0
    assert comparison.models["old"].tokens is None
    assert comparison.models["new"].tokens.value == 30


def test_tasks_of_one_id_in_two_environments_are_two_tasks():
    tasks = (
        TaskOutcome("t0", "", 1, 1, 1.0, environment="code", split="test"),
        TaskOutcome("t0", "", 1, 0, 0.0, environment="textcraft", split="test"),
    )
    both = EvaluationResult(0, "alone", "test", tasks, "code+textcraft")
    comparison = compare_models({"a": both, "b": both})
    assert (comparison.tasks, comparison.pairs[0].tasks) == (2, 2)


def of_sources(**solved):
    """Ten tasks of one split for each source, of which the first ones are solved."""
    parts = [result([1] * count + [0] * (10 - count), source=name) for name, count in solved.items()]
    return replace(parts[0], tasks=sum((part.tasks for part in parts), ()))


def test_two_sources_of_one_environment_have_tasks_of_their_own():
    comparison = compare_models({"a": of_sources(easy=8, hard=2), "b": of_sources(easy=2, hard=2)})
    assert (comparison.tasks, comparison.models["a"].success.value) == (20, 0.5)
    (pair,) = comparison.pairs
    assert (pair.tasks, pair.losses, pair.difference) == (20, 6, pytest.approx(-0.3))
    assert "hard/code/test/t0" in comparison.rates


def test_names_of_sources_do_not_set_tasks_apart_that_environment_and_split_name():
    comparison = compare_models({"a": of_sources(easy=8), "b": of_sources(code=6), "c": result([1] * 10)})
    assert comparison.tasks == 10
    assert [pair.tasks for pair in comparison.pairs] == [10, 10, 10]


def test_a_task_that_occurs_twice_is_refused():
    twice = replace(result([1]), tasks=result([1]).tasks * 2)
    with pytest.raises(DataError, match="b has the task code/test/t0 twice"):
        compare_models({"a": result([1]), "b": twice})


def test_the_comparison_is_json():
    tree = compare_models({"a": result([1]), "b": result([0])}).tree()
    assert json.loads(json.dumps(tree))["pairs"][0]["losses"] == 1
