import ast
import hashlib
import json
import re
from collections import Counter
from typing import Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.humaneval import load_humaneval
from sandbox_service.environments.code.service.packs.programs import load_programs, program_splits

TASKS = {task.id: task for task in load_programs()}
SPLITS = program_splits(tuple(TASKS.values()))


def description(prompt: str) -> str:
    found = re.search(r"that returns (.*)\. For example", prompt)
    assert found is not None
    return found[1]


def source(task_id: str) -> str:
    command = TASKS[task_id].reference[0].arguments["command"]
    return str(command).removeprefix("cat > solution.py <<'END'\n").removesuffix("END")


def function(task_id: str) -> str:
    """A task's function, with its filters in alphabetical order."""
    tree = ast.parse(source(task_id))
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension) and node.ifs and isinstance(node.ifs[0], ast.BoolOp):
            node.ifs[0].values.sort(key=ast.unparse)
    return ast.unparse(tree)


def solution(task_id: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(source(task_id), namespace)
    return namespace


def hidden_tests(task_id: str) -> tuple[str, ...]:
    grader = TASKS[task_id].grader
    assert grader.kind == "tests"
    return grader.tests


def test_the_tasks_are_the_same_for_ever() -> None:
    rows = [
        (task.id, task.prompt, hidden_tests(task.id), task.reference[0].arguments) for task in TASKS.values()
    ]
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == (
        "7cb774e11adba95c869b573eab974ee26fdf97ab8151e045a662b311b2184ffa"
    )


def test_sizes_and_order_are_even_in_difficulty() -> None:
    assert {name: len(ids) for name, ids in SPLITS.items()} == {"programs_train": 1197, "programs_test": 300}
    for ids in SPLITS.values():
        assert Counter(TASKS[each].difficulty for each in ids[:60]) == {"easy": 20, "medium": 20, "hard": 20}


def test_no_description_occurs_twice_so_none_is_both_trained_on_and_tested() -> None:
    assert len({description(task.prompt) for task in TASKS.values()}) == len(TASKS)


def test_no_function_that_is_tested_is_trained_on_with_its_filters_in_the_other_order() -> None:
    tested = {function(task_id) for task_id in SPLITS["programs_test"]}
    assert [task_id for task_id in SPLITS["programs_train"] if function(task_id) in tested] == []
    # They are known by their ids, and still exactly those that it would be.
    again = {task_id for task_id in TASKS if "/train/" in task_id and function(task_id) in tested}
    assert again | set(SPLITS["programs_train"]) | set(SPLITS["programs_test"]) == TASKS.keys()


def test_the_example_of_the_prompt_is_right_and_says_something() -> None:
    for task in TASKS.values():
        call, result = re.findall(r"`([^`]+)`", task.prompt)[1:]
        assert eval(call, solution(task.id)) == eval(result), task.id
        assert eval(result), task.id


@pytest.mark.parametrize("constant", ["[]", "0", "''", "None", "list", "'a'"])
def test_no_constant_passes_half_of_a_tasks_tests(constant: str) -> None:
    for task_id in TASKS:
        passed = 0
        for test in hidden_tests(task_id):
            wanted = test.split(" == ", 1)[1]
            passed += eval(constant) == eval(wanted)
        assert passed <= 3, task_id


def test_reference_solutions_pass_and_another_tasks_solution_does_not() -> None:
    ids = list(TASKS)
    for task_id, other in zip(ids, ids[7:] + ids[:7], strict=True):
        for test in hidden_tests(task_id):
            exec(test, solution(task_id))
        assert not all(_passes(test, solution(other)) for test in hidden_tests(task_id)), (task_id, other)


def _passes(test: str, namespace: dict[str, Any]) -> bool:
    try:
        exec(test, namespace)
    except (AssertionError, TypeError, AttributeError, ValueError, IndexError):
        return False
    return True


def test_no_prompt_is_one_of_humaneval() -> None:
    asked = {task.prompt for task in load_humaneval()}
    assert asked.isdisjoint(task.prompt for task in TASKS.values())
    assert not any("compute" in task.grader.names for task in load_humaneval() if task.grader.kind == "tests")


def test_the_catalog_offers_both_splits() -> None:
    catalog = CodeCatalog(CodeConfig())
    assert set(SPLITS) <= {split.name for split in catalog.describe().splits}
    assert catalog.payload("programs/test/easy/1").task["tested"]
