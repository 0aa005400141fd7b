"""The summary of a run's latest rollouts: what failures cost, staleness, and groups used and dropped."""

import pytest

from sandbox_service.console.rollout_summary import rollout_summary


def figures(part):
    """Last value and mean of each figure by its label."""
    return {each.label: (each.last, each.mean) for each in part}


def test_the_reward_is_shown_with_and_without_failed_episodes():
    metrics = {
        0: {"reward/mean": 0.5, "reward/with_failures": 0.5},
        1: {"reward/mean": 0.75, "reward/with_failures": 0.25, "failures/sandbox": 4.0},
    }
    shown = figures(rollout_summary(metrics, {}).failures)
    assert shown["mean reward of the graded episodes"] == (0.75, 0.625)
    assert shown["mean reward, with 0 for failed episodes"] == (0.25, 0.375)
    assert shown["difference, lost to failures"] == (0.5, 0.25)


def test_a_class_without_failures_in_a_step_counts_as_none_there():
    metrics = {0: {"reward/mean": 0.0, "failures/timeout": 3.0}, 1: {"reward/mean": 0.0}}
    shown = figures(rollout_summary(metrics, {}).failures)
    assert shown["failed attempts: timeout"] == (0.0, 1.5)


def test_staleness_and_groups_are_shown_as_far_as_the_run_records_them():
    metrics = {
        3: {"reward/mean": 0.0, "staleness/mean": 0.5, "staleness/max": 2.0, "groups/dropped": 2.0},
        4: {"reward/mean": 0.0, "staleness/mean": 1.5, "staleness/max": 2.0},
    }
    summary = rollout_summary(metrics, {3: (0, 1), 4: (2, 3, 4, 5)})
    assert (summary.first_step, summary.last_step) == (3, 4)
    shown = figures(summary.samples)
    assert shown == {
        "updates between sampling and training, mean over tokens": (1.5, 1.0),
        "the same, of the oldest token": (2.0, 2.0),
        "groups trained on": (4.0, 3.0),
        "groups dropped": (None, 2.0),
    }
    assert [each.metric for each in summary.samples][2:] == ["", "groups/dropped"]


def test_means_are_over_the_last_twenty_steps_with_rollouts():
    metrics = {step: {"loss/sft": 1.0} for step in range(5)}
    metrics |= {step: {"reward/mean": float(step)} for step in range(5, 45)}
    summary = rollout_summary(metrics, {})
    assert (summary.first_step, summary.last_step) == (25, 44)
    assert figures(summary.failures)["mean reward of the graded episodes"] == (44.0, 34.5)


@pytest.mark.parametrize("metrics", [{}, {0: {"loss/sft": 1.0}}], ids=["nothing yet", "warm start"])
def test_a_run_without_rollouts_has_no_summary(metrics):
    assert rollout_summary(metrics, {}) is None
