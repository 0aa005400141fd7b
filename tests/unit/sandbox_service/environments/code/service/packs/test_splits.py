from collections import Counter

from sandbox_service.environments.code.service.packs.own import load_own
from sandbox_service.environments.code.service.packs.splits import own_splits

TASKS = load_own()
SPLITS = own_splits(TASKS)


def test_train_and_test_divide_the_pack() -> None:
    assert not set(SPLITS["train"]) & set(SPLITS["test"])
    assert set(SPLITS["train"]) | set(SPLITS["test"]) == {task.id for task in TASKS}


def test_every_category_and_difficulty_is_in_both() -> None:
    for name in ("train", "test"):
        strata = Counter((task.category, task.difficulty) for task in TASKS if task.id in SPLITS[name])
        assert len(strata) == 9


def test_the_division_does_not_depend_on_the_order_of_tasks() -> None:
    again = own_splits(reversed(TASKS))
    assert (again["train"], again["test"]) == (SPLITS["train"], SPLITS["test"])
