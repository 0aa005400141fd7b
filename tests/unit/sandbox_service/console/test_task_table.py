"""Statistics of tasks out of their episodes."""

import pytest

from sandbox_service.console.task_table import ENOUGH_GRADED, SORT_KEYS, sorted_rows, task_rows
from sandbox_service.trajectories.search import EpisodeSummary, Place


def played(task="t", success=None, reward=None, environment="echo", **outcome):
    """An episode of a task with an outcome."""
    place = Place(0.0, "s1.a")
    return EpisodeSummary(
        place, "s1.a", environment, task, None, None, None, success=success, reward=reward, **outcome
    )


def graded(*rewards, task="t"):
    """Episodes that were graded, of which those with a reward of 1 were solved."""
    return [played(task, success=reward >= 1, reward=reward) for reward in rewards]


def row_of(episodes):
    (row,) = task_rows(episodes)
    return row


def test_rate_mean_and_spread_are_of_the_graded_episodes():
    row = row_of([*graded(1.0, 0.0, 0.5), played(reward=9.0)])
    assert (row.episodes, row.graded, row.solved) == (4, 3, 1)
    assert (row.pass_rate, row.mean, row.spread) == (pytest.approx(1 / 3), 0.5, 0.5)


def test_a_task_without_a_verdict_has_no_rate_and_one_verdict_has_no_spread():
    assert (row_of([played(reward=1.0)]).pass_rate, row_of([played()]).mean) == (None, None)
    assert row_of(graded(1.0)).spread is None


@pytest.mark.parametrize(
    ("rewards", "marks"),
    [
        ([1.0] * ENOUGH_GRADED, ("saturated",)),
        ([1.0] * (ENOUGH_GRADED - 1), ()),
        ([0.5] * ENOUGH_GRADED, ("never solved",)),
        ([0.0] * (ENOUGH_GRADED - 1), ()),
        ([1.0] * ENOUGH_GRADED + [0.0], ()),
    ],
)
def test_enough_graded_episodes_with_one_outcome_are_marked(rewards, marks):
    assert row_of(graded(*rewards)).marks == marks


@pytest.mark.parametrize(
    ("episodes", "reason"),
    [
        ([played(success=True, reward=1.0, regraded_differently=True)], "graded differently"),
        ([played(failure_class="task", failure_code="grader_failed")], "the grader failed in 1"),
        ([played(failure_class="timeout")] * 2 + graded(*[0.5] * 18), "failed in 2 of 20"),
    ],
)
def test_a_task_looks_flaky_for_a_reason(episodes, reason):
    row = row_of(episodes)
    assert "flaky" in row.marks
    assert reason in row.flaky[0]


def test_few_failures_do_not_make_a_task_flaky_and_those_of_callers_are_none_of_the_infrastructure():
    assert row_of([played(failure_class="sandbox"), *graded(*[0.5] * 3)]).flaky == ()
    assert row_of([played(failure_class="sandbox")] * 2 + graded(*[0.5] * 19)).flaky == ()
    assert row_of([played(failure_class="request")] * 9).failures == 0


def test_tasks_of_one_id_in_two_environments_are_two():
    rows = task_rows([played("t", environment="b"), played("t", environment="a")])
    assert [row.environment for row in rows] == ["a", "b"]


@pytest.mark.parametrize("descending", [True, False])
def test_tasks_without_a_value_come_last_in_either_order(descending):
    episodes = [*graded(1.0, 1.0, task="all"), *graded(1.0, 0.0, task="half"), played("none")]
    rows = sorted_rows(task_rows(episodes), "pass_rate", descending=descending)
    order = ["all", "half"] if descending else ["half", "all"]
    assert [row.task_id for row in rows] == [*order, "none"]


@pytest.mark.parametrize("key", SORT_KEYS)
def test_every_key_sorts_rows_of_any_kind(key):
    episodes = [*graded(*[1.0] * 8, task="a"), *graded(0.0, task="b"), played("c")]
    assert len(sorted_rows(task_rows(episodes), key, descending=True)) == 3
