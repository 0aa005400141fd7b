"""Read tasks and answers by id from the prepared data, when they are asked for. Standard library only.

A task is a line of a file that is mapped into memory, parsed anew for each reader: so every instance has
objects of its own, and a process that holds thousands of tasks holds only their places.
"""

from __future__ import annotations

import json
import mmap
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_service.wire.json_types import JsonObject


class TaskLocation(NamedTuple):
    """The place of a task and of its answer in their files."""

    task_start: int
    task_length: int
    answer_start: int
    answer_length: int
    turns: int
    """User turns of the whole episode."""


class TaskFiles:
    """The files that ``setup/prepare.py`` wrote."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def __deepcopy__(self, memo: object) -> TaskFiles:
        """Return the same object: copies of an episode share the files, which are never changed."""
        return self

    @cached_property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Ids in order, by category."""
        return {category: tuple(row[0] for row in rows) for category, rows in self._index.items()}

    @cached_property
    def places(self) -> dict[str, TaskLocation]:
        """Places by id."""
        return {row[0]: TaskLocation(*row[1:]) for rows in self._index.values() for row in rows}

    @cached_property
    def tools(self) -> dict[str, list[JsonObject]]:
        """OpenAI tools by API class. Shared: not to be changed."""
        tools: dict[str, list[JsonObject]] = self._read("tools.json")
        return tools

    @cached_property
    def owners(self) -> dict[str, str]:
        """The API class of each function; no two have functions of one name."""
        return {tool["function"]["name"]: name for name, tools in self.tools.items() for tool in tools}

    @cached_property
    def sessions(self) -> dict[str, list[list[str]]]:
        """The user's messages in each conversation before memory questions, by scenario."""
        sessions: dict[str, list[list[str]]] = self._read("sessions.json")
        return sessions

    def warm(self) -> None:
        """Read what a box needs."""
        _ = self.places, self.owners, self.sessions, self._tasks, self._answers

    def task(self, task_id: str) -> JsonObject:
        """Return a task, without ground truth. Raises KeyError."""
        place = self.places[task_id]
        return self._line(self._tasks, place.task_start, place.task_length)

    def answer(self, task_id: str) -> JsonObject:
        """Ground truth and a solution of a task. Raises KeyError."""
        place = self.places[task_id]
        return self._line(self._answers, place.answer_start, place.answer_length)

    @cached_property
    def _index(self) -> dict[str, list[list[Any]]]:
        index: dict[str, list[list[Any]]] = self._read("index.json")
        return index

    @cached_property
    def _tasks(self) -> mmap.mmap:
        return self._map("tasks.jsonl")

    @cached_property
    def _answers(self) -> mmap.mmap:
        return self._map("answers.jsonl")

    def _map(self, name: str) -> mmap.mmap:
        with (self._data / name).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _read(self, name: str) -> Any:  # noqa: ANN401  # the file's own form
        return json.loads((self._data / name).read_bytes())

    @staticmethod
    def _line(lines: mmap.mmap, start: int, length: int) -> JsonObject:
        line: JsonObject = json.loads(lines[start : start + length])
        return line
