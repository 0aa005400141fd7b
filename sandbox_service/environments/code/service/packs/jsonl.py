"""Tasks from a JSONL file: one task a line, in the form of ``CodeTask``.

An error names the file, the line and the field, because the file is the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_settings import plain_clause

from .task import CodeTask

if TYPE_CHECKING:
    from pydantic import JsonValue


def load_jsonl(path: Path) -> tuple[CodeTask, ...]:
    """Return the tasks of a file. Raises ServiceError(TASK_INVALID)."""
    tasks: dict[str, CodeTask] = {}
    for line, row in read_rows(path):
        task = validated(row, f"{path}:{line}")
        if task.id in tasks:
            raise invalid(f"{path}:{line}", f"id: {task.id!r} occurs twice")
        tasks[task.id] = task
    if not tasks:
        raise invalid(str(path), "the file holds no task")
    return tuple(tasks.values())


def read_rows(path: Path) -> Iterator[tuple[int, JsonValue]]:
    """Yield line numbers and values of a JSONL file; empty lines are skipped."""
    try:
        # Editors of Windows write a byte order mark first.
        # Split at line feeds only: JSON strings may hold the other line separators of Unicode.
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise invalid(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise invalid(str(path), f"is not UTF-8 text at byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            # JSON can write half of a surrogate pair, which no file and no message can have.
            json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise invalid(f"{path}:{number}", f"not valid JSON: {error}") from None
        yield number, row


def validated(row: object, place: str) -> CodeTask:
    """Return the task that a row describes. Raises ServiceError(TASK_INVALID) naming place and field."""
    try:
        return CodeTask.model_validate(row)
    except ValidationError as error:
        raise mismatch(place, error) from None


def mismatch(place: str, error: ValidationError) -> ServiceError:
    """Return the error of a row that does not fit its model, from the form that fits furthest."""
    closest = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))
    field = ".".join(str(part) for part in closest["loc"]) or "task"
    return invalid(place, f"{field}: {plain_clause(closest)}")


def invalid(place: str, reason: str) -> ServiceError:
    """Return the error of a task file, ready to be raised."""
    return ServiceError(ErrorCode.TASK_INVALID, f"{place}: {reason}")
