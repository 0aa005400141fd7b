from dataclasses import replace

import numpy as np
import pytest

from trainer.errors import DataError
from trainer.evaluate.comparison import compare
from trainer.evaluate.intervals import Interval, wilson
from trainer.evaluate.results import EvaluationResult, TaskOutcome


def result(successes, episodes=1, first=0):
    tasks = tuple(
        TaskOutcome(f"t{first + number}", "", episodes, count, count / episodes)
        for number, count in enumerate(successes)
    )
    return EvaluationResult(0, "alone", "test", tasks)


def test_the_difference_is_that_of_the_rates_on_common_tasks():
    comparison = compare(result([0, 0, 1, 1]), result([1, 0, 1, 1], first=0))
    assert (comparison.tasks, comparison.before, comparison.after) == (4, 0.5, 0.75)
    assert comparison.difference == 0.25


def test_only_common_tasks_with_a_verdict_count():
    before = result([1, 0, 0])
    after = EvaluationResult(
        1, "after", "test", (*result([1, 1], first=1).tasks, TaskOutcome("t0", "", 0, 0, 0.0, failures=1))
    )
    comparison = compare(before, after)
    assert (comparison.tasks, comparison.before, comparison.after) == (2, 0.0, 1.0)


def test_episodes_that_one_of_them_lost_are_no_difference():
    easy, hard = result([4] * 20, episodes=4), result([0] * 20, episodes=4, first=20)
    whole = EvaluationResult(0, "alone", "test", easy.tasks + hard.tasks)
    lost = tuple(replace(task, episodes=1, failures=3) for task in hard.tasks)
    comparison = compare(whole, replace(whole, tasks=easy.tasks + lost))
    assert (comparison.before, comparison.after) == (0.5, 0.5)
    assert comparison.difference == 0.0


def test_no_common_task_is_an_error():
    with pytest.raises(DataError, match="no scored task in common"):
        compare(result([1]), result([1], first=5))


def test_the_same_evaluation_twice_differs_by_what_other_tasks_may_show():
    """Of three tasks without a change, up to 56% of all tasks may have one."""
    comparison = compare(result([0, 1, 1]), result([0, 1, 1]))
    others = wilson(0, 3).high
    assert (comparison.difference, comparison.interval) == (0.0, Interval(-others, others))


@pytest.mark.parametrize(("tasks", "certain"), [(1, False), (3, False), (5, True)])
def test_a_change_of_a_few_tasks_that_is_the_same_is_not_certain(tasks, certain):
    interval = compare(result([0] * tasks), result([1] * tasks)).interval
    assert (interval.low > 0, interval.high) == (certain, 1.0)
    worse = compare(result([1] * tasks), result([0] * tasks)).interval
    assert (worse.low, worse.high) == pytest.approx((-interval.high, -interval.low))


def test_the_interval_agrees_with_the_normal_approximation_of_paired_differences():
    random = np.random.default_rng(1)
    before = (random.random(400) < 0.4).astype(int)
    after = np.where(random.random(400) < 0.8, before, 1)
    comparison = compare(result(before.tolist()), result(after.tolist()))
    half = 1.96 * np.std(after - before) / 20
    assert comparison.interval.low == pytest.approx(comparison.difference - half, abs=0.01)
    assert comparison.interval.high == pytest.approx(comparison.difference + half, abs=0.01)
    assert comparison.interval.low > 0


def test_pairing_makes_the_interval_narrower_than_two_independent_ones():
    before = [1] * 50 + [0] * 50
    after = [1] * 60 + [0] * 40
    paired = compare(result(before), result(after)).interval
    shuffled = compare(result(before), result(after[::-1])).interval
    assert paired.high - paired.low < (shuffled.high - shuffled.low) / 2


def test_it_is_the_same_each_time():
    one, other = result([0, 1] * 10), result([1, 1] * 10)
    assert compare(one, other) == compare(one, other)


def test_tasks_of_two_environments_with_one_name_are_two_tasks():
    def of_both(code, textcraft):
        tasks = [
            TaskOutcome("1", "", 1, solved, float(solved), environment=name)
            for name, solved in (("code", code), ("textcraft", textcraft))
        ]
        return EvaluationResult(0, "alone", "test", tuple(tasks), "code+textcraft")

    comparison = compare(of_both(1, 0), of_both(1, 1))
    assert (comparison.tasks, comparison.before, comparison.after) == (2, 0.5, 1.0)


def test_a_task_of_two_splits_counts_in_each():
    def of_both(test, easy):
        tasks = [
            TaskOutcome(str(number), "", 1, solved, float(solved), environment="code", split=split)
            for split, solved in (("test", test), ("easy", easy))
            for number in range(10)
        ]
        return EvaluationResult(0, "alone", "test+easy", tuple(tasks), "code")

    comparison = compare(of_both(0, 0), of_both(1, 0))
    assert (comparison.tasks, comparison.before, comparison.after) == (20, 0.0, 0.5)


def test_tasks_of_earlier_versions_have_environment_and_split_of_their_evaluation():
    later = tuple(
        replace(task, environment="code", split="test", source="mine") for task in result([1, 1]).tasks
    )
    comparison = compare(replace(result([0, 1]), environment="code"), replace(result([]), tasks=later))
    assert (comparison.tasks, comparison.difference) == (2, 0.5)
