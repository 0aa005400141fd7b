"""Generators that repeat themselves are found, and tasks that only open alike are not taken for one."""

import pytest

from sandbox_conformance.repetition import compare, compared_tasks, leaked_tasks
from sandbox_service.environments.shared.service.task_catalog import NumberedTask, TaskCatalog


class Numbers(TaskCatalog):
    """A task for each number that ``drawn`` gives to a split and a number."""

    name = "numbers"
    description = "Say a number."
    splits = {"train": 20, "test": 5}  # noqa: RUF012 - as small environments write it

    def drawn(self, split, number):
        return f"{split} {number}"

    def make_task(self, split, number):
        wanted = self.drawn(split, number)
        return NumberedTask(f"Say {wanted}.", {"answer": wanted}, [wanted])


class RepeatsItself(Numbers):
    def drawn(self, split, number):
        return str(number % 18) if split == "train" else f"{split} {number}"


class TrainsOnItsTest(Numbers):
    def drawn(self, split, number):
        return str(number + (17 if split == "test" else 0))


class Seeded(Numbers):
    """Its payload has a seed, from which the world makes a question."""

    def make_task(self, split, number):
        return NumberedTask("", {"answer": number % 10}, [str(number % 10)], {"seed": f"{split} {number}"})


class Hidden(Seeded):
    """Tasks that differ only behind the opening, which is reached in several steps."""

    def make_task(self, split, number):
        made = super().make_task(split, number)
        return NumberedTask("Open the drawer.", made.grading, ["look", *made.reference], made.task)


def found(catalog):
    return compare(catalog, compared_tasks(catalog))


def test_different_tasks_are_no_repetition() -> None:
    assert (found(Numbers()).equal, found(Numbers()).alike) == ([], [])


@pytest.mark.parametrize(
    ("catalog", "groups"),
    [
        (RepeatsItself(), [["train-0", "train-18"], ["train-1", "train-19"]]),
        (TrainsOnItsTest(), [["train-17", "test-0"], ["train-18", "test-1"], ["train-19", "test-2"]]),
    ],
    ids=["within a split", "in training and held out"],
)
def test_a_plugin_that_repeats_itself_is_found_with_the_ids(catalog, groups) -> None:
    assert found(catalog).equal == groups


def test_tasks_of_one_answer_are_suspected_where_the_opening_is_all_there_is() -> None:
    assert found(Seeded()).equal == []
    assert [len(group) for group in found(Seeded()).alike] == [2] * 5 + [3] * 5


def test_tasks_that_hide_what_differs_are_not_suspected() -> None:
    assert found(Hidden()).alike == []


def test_a_large_split_is_compared_in_a_sample_of_the_whole() -> None:
    large = Numbers()
    large.splits = {"train": 1999, "test": 5}
    compared = compared_tasks(large)
    assert len(compared) == 1000 + 5
    assert {"train-0", "train-1998", "test-4"} <= set(compared)


class Views(Numbers):
    """Splits with tasks of other splits."""

    splits = {"train": 1, "test": 1, "all": 2, "hard_train": 1, "contest": 1}  # noqa: RUF012
    ids = {  # noqa: RUF012
        "train": ["a"],
        "test": ["b"],
        "all": ["a", "b"],
        "hard_train": ["b"],
        "contest": ["a"],
    }

    def task_ids(self, split):
        return self.ids[split]


def test_a_training_split_with_a_held_out_task_is_named_and_views_of_both_are_not() -> None:
    assert leaked_tasks(Views()) == {("hard_train", "test"): ["b"]}
