import json
from collections import Counter
from typing import Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.box.answers import numeric
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.own import load_own, own_splits
from tests.harness.cheats import ADAPTIVE_PUZZLE

CATALOG = CodeCatalog(CodeConfig())
TASKS = {task.id: task for task in load_own()}
SPLITS = own_splits(TASKS.values())


def test_the_pack_covers_every_category_difficulty_and_grader() -> None:
    assert len(TASKS) >= 60
    strata = Counter((task.category, task.difficulty) for task in TASKS.values())
    assert set(strata) == {
        (category, difficulty)
        for category in ("maths", "data", "algorithms")
        for difficulty in ("easy", "medium", "hard")
    }
    assert min(strata.values()) >= 6
    kinds = {task.grader.kind for task in TASKS.values()}
    assert kinds == {"exact", "numeric", "choice", "f1", "rouge_l", "tests"}


def test_prompts_name_what_the_tests_use() -> None:
    for task in TASKS.values():
        if task.grader.kind == "tests":
            assert all(name in task.prompt for name in task.grader.names), task.id


def test_prompts_name_their_input_files() -> None:
    for task in TASKS.values():
        assert all(f"`{path}`" in task.prompt for path in task.files), task.id


def test_a_whole_number_is_not_right_one_more_or_less() -> None:
    for task in TASKS.values():
        if task.grader.kind == "numeric" and task.grader.answer.is_integer():
            rel_tol, abs_tol = task.grader.rel_tol, task.grader.abs_tol
            for other in (task.grader.answer - 1, task.grader.answer + 1):
                assert not numeric(str(other), task.grader.answer, rel_tol=rel_tol, abs_tol=abs_tol), task.id


def test_references_compute_their_answers() -> None:
    for task in TASKS.values():
        assert task.reference, task.id
        assert all("answer" not in call.arguments for call in task.reference), task.id


@pytest.mark.parametrize("task_id", TASKS)
def test_the_reference_solves_the_task_and_nothing_does_not(task_id: str, play: Any, submit: Any) -> None:
    assert play(CATALOG, task_id, CATALOG.reference(task_id)).success
    empty = play(CATALOG, task_id, [submit])
    assert (empty.score, empty.success) == (0, False)


def test_a_grid_that_answers_each_look_as_its_grader_likes_solves_no_puzzle(play: Any, submit: Any) -> None:
    arguments = {"command": "create", "path": "solution.py", "file_text": ADAPTIVE_PUZZLE}
    function = {"name": "str_replace_editor", "arguments": json.dumps(arguments)}
    create = {"tool_calls": [{"id": "c", "function": function}]}
    verdict = play(CATALOG, "algorithms_number_puzzle", [create, submit])
    # Two of the five have no solution, which it sees.
    assert (verdict.details["passed"], verdict.success) == (2, False), verdict.details


def test_train_and_test_divide_the_pack() -> None:
    assert not set(SPLITS["train"]) & set(SPLITS["test"])
    assert set(SPLITS["train"]) | set(SPLITS["test"]) == {task.id for task in TASKS.values()}


def test_every_category_and_difficulty_is_in_both() -> None:
    for name in ("train", "test"):
        strata = Counter(
            (task.category, task.difficulty) for task in TASKS.values() if task.id in SPLITS[name]
        )
        assert len(strata) == 9


def test_the_division_does_not_depend_on_the_order_of_tasks() -> None:
    again = own_splits(reversed(TASKS.values()))
    assert (again["train"], again["test"]) == (SPLITS["train"], SPLITS["test"])
