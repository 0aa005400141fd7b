import json
import os
from typing import Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.humaneval import load_humaneval

CATALOG = CodeCatalog(CodeConfig())
IDS = CATALOG.task_ids("humaneval")
FULL = (
    os.environ.get("CONFORMANCE_FULL") == "1"
    or "code" in os.environ.get("CONFORMANCE_ENVIRONMENTS", "").split()
)
FOREIGN_HELPERS = {"HumanEval/32": "poly", "HumanEval/38": "encode_cyclic", "HumanEval/50": "encode_shift"}


def solution(text: str) -> dict:
    arguments = json.dumps({"command": "create", "path": "solution.py", "file_text": text})
    return {"tool_calls": [{"id": "c", "function": {"name": "str_replace_editor", "arguments": arguments}}]}


def test_all_164_tasks_are_there() -> None:
    assert len(IDS) == 164
    assert IDS[0] == "HumanEval/0"


@pytest.mark.slow
def test_canonical_solutions_pass_and_stubs_fail(play: Any, submit: Any) -> None:
    """Of each eighth task, and of all where CI says that the environment has changed."""
    for task_id in IDS if FULL else IDS[::8]:
        assert play(CATALOG, task_id, CATALOG.reference(task_id)).success, task_id
        (name,) = CATALOG.payload(task_id).grading["names"]
        stub = play(CATALOG, task_id, [solution(f"def {name}(*args):\n    return None\n"), submit])
        assert (stub.score, stub.success) == (0, False), task_id


@pytest.mark.parametrize("task_id", [*IDS[:4], *FOREIGN_HELPERS])
def test_a_canonical_solution_passes(task_id: str, play: Any) -> None:
    assert play(CATALOG, task_id, CATALOG.reference(task_id)).success


@pytest.mark.parametrize(("task_id", "helper"), FOREIGN_HELPERS.items())
def test_helpers_of_the_prompt_run_on_the_trusted_side(
    task_id: str, helper: str, play: Any, submit: Any
) -> None:
    task = next(task for task in load_humaneval() if task.id == task_id)
    assert f"def {helper}(" in task.grader.setup
    forged = f"def {helper}(*args):\n    return 0\ndef {task.grader.names[0]}(*args):\n    return 0\n"
    assert not play(CATALOG, task_id, [solution(forged), submit]).success
