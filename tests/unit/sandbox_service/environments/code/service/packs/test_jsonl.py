import json
from pathlib import Path

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.code.service.packs.jsonl import load_jsonl
from sandbox_service.errors import ServiceError

ROW = {"id": "a", "prompt": "Say yes.", "grader": {"kind": "exact", "answers": ["yes"]}}
TESTS = {"kind": "tests", "names": ["f"], "tests": ["assert f() == 1"]}
MANY_OPERANDS = f"assert f() == {'+'.join('1' * 20_000)}"
DEEP = f"assert {'not ' * 200_000}f()"


def test_tasks_are_read_in_order_and_empty_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    second = {**ROW, "id": "b", "prompt": "Line\u2028separators\x0cinside."}
    path.write_text(json.dumps(ROW) + "\n\n" + json.dumps(second, ensure_ascii=False) + "\r\n")
    assert [task.id for task in load_jsonl(path)] == ["a", "b"]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(ROW) + "\n", encoding="utf-8-sig")
    assert [task.id for task in load_jsonl(path)] == ["a"]


def test_the_result_file_depends_on_the_grader(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    rows = [ROW, {**ROW, "id": "b", "grader": TESTS}, {**ROW, "id": "c", "answer_file": "out/x.txt"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [task.artifact for task in load_jsonl(path)] == ["answer.txt", "solution.py", "out/x.txt"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id:"),
        ({"id": "a b"}, "id:"),
        ({"prompt": None}, "prompt:"),
        ({"grader": {"kind": "guess"}}, "grader:"),
        ({"grader": {"kind": "numric"}}, "grader: 'numric' is not one of: "),
        ({"grader": {"kind": "exact", "answers": "yes"}}, "grader.exact.answers: should be a list"),
        ({"grader": "exact"}, "grader: should be a table or object"),
        ({"grader": {"kind": "exact", "answers": []}}, "grader.exact.answers:"),
        ({"grader": {"kind": "numeric", "answer": "many"}}, "grader.numeric.answer:"),
        ({"grader": {"kind": "numeric", "answer": 1, "abs_tol": -1}}, "grader.numeric.abs_tol:"),
        ({"grader": {"kind": "choice", "answers": ["AB"]}}, "grader.choice.answers.0:"),
        ({"grader": {"kind": "f1", "answers": ["x"], "threshold": 2}}, "grader.f1.threshold:"),
        (
            {"grader": {**TESTS, "tests": ["assert f( == 1"]}},
            "grader.tests.tests.0: must be Python",
        ),
        ({"grader": {**TESTS, "names": ["f()"]}}, "grader.tests.names.0:"),
        ({"grader": {**TESTS, "names": ["class"]}}, "grader.tests.names.0:"),
        *(
            ({"grader": {**TESTS, "tests": [code]}}, "grader.tests.tests.0: must be Python")
            for code in ("return 1", "break", "await f()", "assert 1\0", MANY_OPERANDS, DEEP)
        ),
        ({"grader": {"kind": "exact", "answers": ["yes", " \n"]}}, "grader.exact.answers.1:"),
        ({"files": {"../x": "y"}}, "files.../x"),
        ({"files": {"/etc/x": "y"}}, "files./etc/x"),
        ({"files": {"x": {"base64": "%"}}}, "files.x.EncodedFile.base64:"),
        ({"files": {"data/": "y"}}, "files.data/"),
        ({"files": {"x" * 256: "y"}}, "files.xxx"),
        ({"files": {"x/" * 500 + "x": "y"}}, "files.x/x"),
        ({"files": {"a": "1", "./a": "2"}}, "task: files: a is there twice"),
        (
            {"files": {"a/b/c": "1", "a": "2"}},
            "task: files: a is a file, and the folder of a/b/c",
        ),
        ({"files": {"out": "1"}, "answer_file": "out/x"}, "task: files: out is a file, and"),
        ({"answer_file": "a/../../b"}, "answer_file:"),
        ({"max_steps": 0}, "max_steps:"),
        ({"promt": "x"}, "promt: there is no such field"),
        ({"reference": [{"tool": "rm"}]}, "reference.0.tool:"),
        ({"reference": [{"tool": "python"}]}, "reference.0: python needs the argument 'code'"),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path: Path, change: dict, field: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "id": "b", **change}) + "\n")
    with pytest.raises(ServiceError) as caught:
        load_jsonl(path)
    assert caught.value.code is ErrorCode.TASK_INVALID
    assert f"{path}:2: {field}" in caught.value.detail


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no task"),
        (b"{", ":1: not valid JSON"),
        (b"[]\n", ":1: task: should be"),
        (b"[" * 100_000, ":1: not valid JSON"),
        (b'{"id": "a", "files": {"x": "\\ud800"}}', ":1: not valid JSON"),
        (b"\xff\xfe", "is not UTF-8 text at byte 0"),
        (json.dumps(ROW).encode() * 1 + b"\n" + json.dumps(ROW).encode(), ":2: id: 'a' occurs twice"),
    ],
)
def test_files_that_are_no_task_files_are_told(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(ServiceError) as caught:
        load_jsonl(path)
    assert words in caught.value.detail


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="cannot be read: No such file"):
        load_jsonl(tmp_path / "none.jsonl")
