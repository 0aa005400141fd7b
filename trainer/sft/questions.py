"""Plain questions and answers made into tasks with demonstrations: supervised data that knows the sandbox.

A line of the source is ``{"question": ..., "answer": ...}`` with, optionally, ``program`` (Python that prints
the answer), ``reasoning`` (words before the first action), ``id``, ``difficulty`` and ``category``. Out of it
come two files: tasks for the service (``environments.code.task_files``), whose name is their split, and
demonstrations of them, which the warm start plays: the program is run in the sandbox, its real output is
seen, and the answer is submitted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trainer.errors import DataError

from .demonstrations import Demonstration, json_rows, mismatch, write_demonstrations
from .notation import SUBMIT, Call, program, say

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.messages import Message


ENVIRONMENT = "code"
"""The environment that serves task files."""
_NUMBER = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")
_FINAL = "####"
"""Stands before the answer in sets whose answers hold their solution, such as GSM8K (Cobbe et al. 2021)."""


class Question(BaseModel):
    """One line of the source."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    question: str = Field(min_length=1)
    """What is asked, as the agent is told it."""
    answer: int | float | str | tuple[str, ...] = Field(union_mode="left_to_right")
    """The right answer, or texts that are all right. Of a text with ``####``, what stands behind it."""
    program: str | None = None
    """Python that prints the answer, or ends with it."""
    reasoning: str | None = None
    """What the agent says before it acts; what stands before ``####`` when missing."""
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]*$")
    """Id of the task; by its line when missing."""
    difficulty: Literal["easy", "medium", "hard"] | None = None
    category: str | None = None

    @field_validator("answer", mode="before")
    @classmethod
    def _no_truth_value(cls, answer: object) -> object:
        if isinstance(answer, bool) or answer in ("", [], ()):
            raise ValueError("must be a number, a text, or a list of texts that are right")
        return list(map(str, answer)) if isinstance(answer, list) else answer

    def task(self, task_id: str, *, bare: bool) -> dict[str, JsonValue]:
        """The task as a line of a task file; numbers are graded as numbers, other answers as texts."""
        row: dict[str, JsonValue] = {"id": task_id, "prompt": self.question, "grader": self._grader()}
        row |= {"bare": True} if bare else {}
        for name in ("difficulty", "category"):
            value = getattr(self, name)
            row |= {name: value} if value else {}
        calls: list[JsonValue] = [{"tool": call.tool, "arguments": call.arguments} for call in self._calls()]
        return {**row, "reference": calls}

    def messages(self, *, native: bool) -> tuple[Message, ...]:
        """What a demonstrator says: the program, if there is one, then the answer."""
        first, *others = self._calls()
        said = [say(first, words=self._words(), native=native)]
        return (*said, *(say(call, native=native) for call in others))

    def _calls(self) -> tuple[Call, ...]:
        submit = Call(SUBMIT, {"answer": self._final()})
        return (program(self.program.strip()), submit) if self.program else (submit,)

    def _final(self) -> str | int | float:
        if isinstance(self.answer, tuple):
            return self.answer[0]
        return self.answer.rpartition(_FINAL)[2].strip() if isinstance(self.answer, str) else self.answer

    def _words(self) -> str:
        if self.reasoning is not None or not isinstance(self.answer, str):
            return self.reasoning or ""
        return self.answer.rpartition(_FINAL)[0].strip()

    def _grader(self) -> dict[str, JsonValue]:
        final = self._final()
        if isinstance(self.answer, tuple):
            return {"kind": "exact", "answers": list(self.answer), "ignore_case": True}
        if isinstance(final, str) and not _NUMBER.fullmatch(final):
            return {"kind": "exact", "answers": [final], "ignore_case": True}
        number = float(final.replace(",", "")) if isinstance(final, str) else final
        whole = {"rel_tol": 0, "abs_tol": 0} if number == int(number) else {}
        return {"kind": "numeric", "answer": number, **whole}


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of a source."""

    split: str
    """Name of the split that the service gives the task file."""
    tasks: int
    with_program: int


def read_questions(path: Path) -> tuple[tuple[str, Question], ...]:
    """Task ids and questions of a file. Raises DataError naming file, line and field."""
    found: dict[str, Question] = {}
    for number, row in json_rows(path):
        try:
            question = Question.model_validate(row)
        except ValidationError as error:
            raise mismatch(f"{path}:{number}", error) from None
        task_id = question.id or f"{_plain(path.stem)}/{number}"
        if task_id in found:
            raise DataError(f"{path}:{number}: id: {task_id!r} occurs twice")
        found[task_id] = question
    if not found:
        raise DataError(f"{path}: holds no question")
    return tuple(found.items())


def convert_questions(
    source: Path, tasks: Path, demonstrations: Path, *, native: bool = False, bare: bool = False
) -> Converted:
    """Write the task file and the demonstrations of a source of questions.

    With ``native``, demonstrations hold tool calls as such instead of text; with ``bare``, agents are told
    the question and nothing else. Raises DataError.
    """
    questions = read_questions(source)
    rows = [question.task(task_id, bare=bare) for task_id, question in questions]
    tasks.parent.mkdir(parents=True, exist_ok=True)
    tasks.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    shown = (
        Demonstration(ENVIRONMENT, task_id, question.messages(native=native))
        for task_id, question in questions
    )
    write_demonstrations(demonstrations, shown)
    with_program = sum(question.program is not None for _, question in questions)
    return Converted(tasks.stem, len(rows), with_program)


def _plain(name: str) -> str:
    """A file's name as the beginning of ids."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "question"
