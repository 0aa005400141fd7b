"""Tasks of several splits are joined, and a limit is divided among them."""

import pytest

from service_cli.policies.split_tasks import joined_tasks


def test_splits_follow_each_other_and_a_task_of_two_is_there_once() -> None:
    assert joined_tasks([("b", "a"), ("a", "c"), ("b",)]) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("limit", "tasks"),
    [
        (2, ["a1", "b1"]),
        (3, ["a1", "a2", "b1"]),
        (5, ["a1", "a2", "a3", "b1", "b2"]),
        (9, ["a1", "a2", "a3", "a4", "b1", "b2"]),
    ],
)
def test_a_limit_is_divided_equally_and_a_short_split_leaves_the_other_its_part(limit, tasks) -> None:
    assert joined_tasks([("a1", "a2", "a3", "a4"), ("b1", "b2")], limit) == tasks


def test_a_task_of_two_splits_counts_once_in_the_limit() -> None:
    assert joined_tasks([("a", "b", "c"), ("a", "b", "d")], 3) == ["a", "b", "c"]
