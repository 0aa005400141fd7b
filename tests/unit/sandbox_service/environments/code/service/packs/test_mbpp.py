import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.code.service.packs.mbpp import load_mbpp
from sandbox_service.errors import ServiceError
from tests.harness.mbpp import chosen

ROW = {
    "task_id": 1,
    "text": "Write a function to add. ",
    "code": "import sys\r\nimport math\r\n"
    "def helper(a):\r\n\treturn a\r\ndef add(a, b): \r\n\treturn helper(a) + b",
    "test_setup_code": "",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, sys.maxsize) == sys.maxsize"],
    "challenge_test_list": ["assert add(-1, 1) == 0"],
}
TREE = {
    "task_id": 2,
    "text": "Write a function to find the depth of a tree.",
    "code": "class Node:\r\n  def __init__(self, data):\r\n"
    "    self.data, self.left, self.right = data, None, None\r\n"
    "def depth(node):\r\n  return 0 if node is None else 1 + max(depth(node.left), depth(node.right))",
    "test_setup_code": "root = Node(1) \r\nroot.left = Node(2) \r\nroot.left.right = Node(3)",
    "test_list": ["assert depth(root) == 3", "assert depth(None) == 0"],
    "challenge_test_list": [],
}


def write(folder: Path, *rows: dict) -> Path:
    path = folder / "mbpp.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_hidden_tests_are_all_tests_and_the_prompt_shows_the_first(tmp_path: Path) -> None:
    (task,) = load_mbpp(write(tmp_path, ROW))
    assert task.id == "MBPP/1"
    assert task.grader.names == ("add",)
    assert len(task.grader.tests) == 3
    assert task.grader.setup == "import sys\n"
    assert "must define `add`" in task.prompt
    assert "assert add(1, 2) == 3" in task.prompt
    assert "assert add(-1, 1)" not in task.prompt
    assert "\r" not in task.prompt + str(task.grader) + str(task.reference)


def test_classes_of_the_solution_are_named_and_their_setup_is_shown(tmp_path: Path) -> None:
    (task,) = load_mbpp(write(tmp_path, TREE))
    assert task.grader.names == ("Node", "depth")
    assert "root.left = Node(2)" in task.prompt


def test_references_pass_and_constants_do_not(tmp_path: Path, play: Any, submit: Any) -> None:
    catalog = CodeCatalog(CodeConfig(mbpp_path=write(tmp_path, ROW, TREE)))
    for task_id in catalog.task_ids("mbpp"):
        assert play(catalog, task_id, catalog.reference(task_id)).success
        assert play(catalog, task_id, [submit]).score == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task_id": "x"}, ":1: task_id:"),
        ({"test_list": []}, ":1: test_list:"),
        ({"code": None}, ":1: code:"),
        ({"code": "def f("}, ":1: code or test_list: not Python"),
        ({"test_list": ["assert ("]}, ":1: code or test_list: not Python"),
        ({"test_list": [f"assert add({'+'.join('1' * 20_000)})"]}, ":1: code or test_list: not Python"),
        ({"test_list": ["return add(1, 2)"]}, ":1: code or test_list: not Python"),
        ({"test_list": ["assert add(1, 2)"] * 101}, ":1: tests: should have at most 100 items"),
        ({"test_list": ["assert other(1)"], "challenge_test_list": []}, ":1: test_list: no test uses"),
    ],
)
def test_broken_rows_are_named_by_file_line_and_field(tmp_path: Path, change: dict, words: str) -> None:
    with pytest.raises(ServiceError) as caught:
        load_mbpp(write(tmp_path, {**ROW, **change}))
    assert words in caught.value.detail


def test_a_task_that_occurs_twice_is_named_by_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r":3: task_id: 'MBPP/1' occurs twice"):
        load_mbpp(write(tmp_path, ROW, TREE, ROW))


@pytest.fixture
def published() -> CodeCatalog:
    path = os.environ.get("SANDBOX_MBPP_PATH")
    if not path:
        pytest.skip("SANDBOX_MBPP_PATH does not name MBPP's JSONL file")
    return CodeCatalog(CodeConfig(mbpp_path=Path(path)))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_published_solution_passes(published: CodeCatalog, play: Any) -> None:
    ids = published.task_ids("mbpp")
    assert len(ids) == 974
    failed = [
        task_id
        for task_id in chosen(ids)
        if not play(published, task_id, published.reference(task_id)).success
    ]
    assert failed == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_published_task_is_solved_by_nothing(published: CodeCatalog, play: Any, submit: Any) -> None:
    for task_id in chosen(published.task_ids("mbpp")):
        names = published.payload(task_id).grading["names"]
        stub = "".join(f"def {name}(*args):\n    return None\n" for name in names)
        arguments = json.dumps({"command": "create", "path": "solution.py", "file_text": stub})
        create = {
            "tool_calls": [{"id": "c", "function": {"name": "str_replace_editor", "arguments": arguments}}]
        }
        assert not play(published, task_id, [create, submit]).success, task_id
