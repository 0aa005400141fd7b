"""Demonstrations: what an assistant says to solve a task, message after message.

A file has one a line, as ``sandbox-service envs references`` writes it:
``{"environment": "code", "task_id": "...", "messages": [assistant messages]}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox_contract.messages import Message
from trainer.errors import DataError

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Demonstration:
    """How one task may be solved, or may not."""

    environment: str
    """Empty where the file does not say."""
    task_id: str
    messages: tuple[Message, ...]
    """The assistant's, in order."""
    spoilt: str = ""
    """In which way it was spoilt on purpose; empty when it was not."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    environment: str = ""
    task_id: str = Field(min_length=1)
    messages: tuple[Message, ...] = Field(min_length=1)


def read_demonstrations(path: Path, environment: str, limit: int | None = None) -> tuple[Demonstration, ...]:
    """The first demonstrations of a file, in its order.

    Raises DataError, naming file and line, for a line that does not fit, somebody else's message than the
    assistant's, another environment than ``environment``, and a file with nothing in it.
    """
    found: list[Demonstration] = []
    for number, row in json_rows(path):
        place = f"{path}:{number}"
        try:
            line = _Row.model_validate(row)
        except ValidationError as error:
            raise mismatch(place, error) from None
        if line.environment not in ("", environment):
            raise DataError(f"{place}: environment: {line.environment}, and the run's is {environment}")
        for message in line.messages:
            if message.role != "assistant":
                raise DataError(
                    f"{place}: messages: only the assistant's messages belong here, and this is "
                    f"the {message.role}'s"
                )
        found.append(Demonstration(line.environment, line.task_id, line.messages))
        if len(found) == limit:
            break
    if not found:
        raise DataError(f"{path}: holds no demonstration")
    return tuple(found)


def write_demonstrations(path: Path, demonstrations: Iterable[Demonstration]) -> int:
    """Write a file of them, a line each; how many there were."""
    lines = [_line(each) for each in demonstrations]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def json_rows(path: Path) -> Iterator[tuple[int, JsonValue]]:
    """Line numbers, from 1, and values of a JSONL file; empty lines are passed over. Raises DataError."""
    try:
        # Split at line feeds only: JSON strings may hold the other line separators of Unicode.
        lines = path.read_bytes().decode().split("\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text at byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not valid JSON: {error}") from None


def mismatch(place: str, error: ValidationError) -> DataError:
    """The error of a line that does not fit its model, ready to be raised: the field and what is wrong."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "line"
    return DataError(f"{place}: {field}: {first['msg']}")


def _line(demonstration: Demonstration) -> str:
    row = {
        "environment": demonstration.environment,
        "task_id": demonstration.task_id,
        "messages": [
            message.model_dump(mode="json", exclude_none=True) for message in demonstration.messages
        ],
    }
    return json.dumps(row, ensure_ascii=False) + "\n"
