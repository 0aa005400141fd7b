"""MBPP (Austin et al. 2021) from a JSONL file of the user: 974 short functions.

The prompt shows the first assertion, as is usual for this set; the hidden tests are all of them. The splits
are the paper's, by task number.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .jsonl import invalid, mismatch, read_rows
from .source import parse_python
from .task import CodeTask, ReferenceCall, TestsGrader

MBPP_SPLITS = {
    "mbpp": range(1, 1_000_000),
    "mbpp_test": range(11, 511),
    "mbpp_validation": range(511, 601),
    "mbpp_train": range(601, 975),
}
"""Task numbers of each split; 1 to 10 are the paper's prompt examples."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    task_id: int
    text: str
    code: str
    test_list: Annotated[tuple[str, ...], Field(min_length=1)]
    test_setup_code: str = ""
    challenge_test_list: tuple[str, ...] = ()


def load_mbpp(path: Path) -> tuple[CodeTask, ...]:
    """Return all tasks of the file. Raises ServiceError(TASK_INVALID)."""
    tasks: dict[str, CodeTask] = {}
    for line, row in read_rows(path):
        task = _task(row, f"{path}:{line}")
        if task.id in tasks:
            raise invalid(f"{path}:{line}", f"task_id: {task.id!r} occurs twice")
        tasks[task.id] = task
    return tuple(tasks.values())


def _task(data: object, place: str) -> CodeTask:
    try:
        row = _Row.model_validate(data)
        setup, code = _unix(row.test_setup_code), _unix(row.code)
        tests = tuple(_unix(test) for test in (*row.test_list, *row.challenge_test_list))
        names, live, modules = _names(code, [setup, *tests])
        if not names:
            raise invalid(place, "test_list: no test uses a name that code defines")
        create = {"command": "create", "path": "solution.py", "file_text": code + "\n"}
        imports = "".join(f"import {module}\n" for module in modules)
        return CodeTask(
            id=f"MBPP/{row.task_id}",
            prompt=_prompt(row.text, names, setup, tests[0]),
            grader=TestsGrader(
                kind="tests", names=names, live=live, tests=tests, setup=imports + setup, timeout_s=15.0
            ),
            category="mbpp",
            reference=(ReferenceCall(tool="str_replace_editor", arguments={**create}),),
        )
    except ValidationError as error:
        raise mismatch(place, error) from None
    except SyntaxError as error:
        raise invalid(place, f"code or test_list: not Python: {error}") from None


def _unix(code: str) -> str:
    return code.replace("\r\n", "\n").replace("\r", "\n").strip()


def _prompt(text: str, names: tuple[str, ...], setup: str, example: str) -> str:
    wanted = ", ".join(f"`{name}`" for name in names)
    parts = [text.strip(), f"The solution must define {wanted}."]
    if setup:
        parts.append(f"The tests prepare their data so:\n\n```python\n{setup}\n```")
    parts.append(f"One of the hidden tests is:\n\n```python\n{example}\n```")
    return "\n\n".join(parts)


def _names(code: str, programs: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the names that tests use, those that give objects, and modules that the solution imports."""
    nodes = [node for text in programs for node in ast.walk(parse_python(text))]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    body = parse_python(code).body
    defined = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = tuple(dict.fromkeys(node.name for node in defined if node.name in used))
    live = {node.name for node in defined if isinstance(node, ast.ClassDef)} & used
    if live:
        # Tests that build trees reach their nodes through attributes.
        live |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imported = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    free = used - set(names) - set(vars(builtins))
    return names, tuple(sorted(live)), tuple(module for module in dict.fromkeys(imported) if module in free)
