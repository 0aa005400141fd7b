"""A task of the code environment: prompt, input files, grader and reference, as the service reads them.

These models are the documented JSONL format of own tasks; the bundled packs use them too. What the box is
sent is derived from them in two halves, the task and its ground truth, which never travel together.
"""

from __future__ import annotations

import base64
import binascii
import keyword
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    JsonValue,
    StringConstraints,
    model_validator,
)

from sandbox_service.environments.code.box.schemas import TOOLS
from sandbox_service.environments.shared.box.tool_specs import ArgumentError, check_arguments

from .source import parse_python

_LONGEST_NAME, _LONGEST_PATH = 255, 1000
"""Bytes of a file's name, as file systems bound it, and of its path, to which the workspace's is added."""


def _valid_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or path.endswith(("/", "/.")) or ".." in parts or "\0" in path or not parts:
        raise ValueError("must be a path inside the workspace, such as data/table.csv")
    if len(path.encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise ValueError(f"must have at most {_LONGEST_PATH} bytes, and {_LONGEST_NAME} in each name")
    return path


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must have more than white space, since an empty answer scores 0")
    return text


def _valid_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("must be base64") from None
    return text


def _valid_python(code: str) -> str:
    try:
        parse_python(code)
    except SyntaxError as error:
        raise ValueError(f"must be Python: {error}") from None
    return code


def _valid_name(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError("must be a Python name")
    return name


FilePath = Annotated[str, AfterValidator(_valid_path)]
Python = Annotated[str, AfterValidator(_valid_python)]
PythonName = Annotated[str, AfterValidator(_valid_name)]
Answers = Annotated[tuple[Annotated[str, AfterValidator(_not_blank)], ...], Field(min_length=1)]
Letter = Annotated[str, StringConstraints(pattern=r"^[A-Z]$")]
Share = Annotated[float, Field(gt=0, le=1)]
Tolerance = Annotated[FiniteFloat, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ExactGrader(_Model):
    """The answer must be one of some texts; outer and trailing white space does not count."""

    kind: Literal["exact"]
    answers: Answers
    """Texts that are right."""
    ignore_case: bool = False
    """Whether upper and lower case are the same."""


class NumericGrader(_Model):
    """The answer must be one number, near enough to the right one."""

    kind: Literal["numeric"]
    answer: FiniteFloat
    """The right number."""
    rel_tol: Tolerance = 1e-6
    """Allowed difference relative to the larger of the two."""
    abs_tol: Tolerance = 1e-9
    """Allowed difference."""


class ChoiceGrader(_Model):
    """Multiple choice: all-or-nothing for one right letter, F1 of the letters for several."""

    kind: Literal["choice"]
    answers: Annotated[tuple[Letter, ...], Field(min_length=1)]
    """The right letters."""


class F1Grader(_Model):
    """Token F1 of the answer's words, best over the right texts."""

    kind: Literal["f1"]
    answers: Answers
    """Texts that are right."""
    threshold: Share = 1.0
    """Score from which on the task counts as solved."""


class RougeGrader(_Model):
    """ROUGE-L of the answer, best over the right texts."""

    kind: Literal["rouge_l"]
    answers: Answers
    """Texts that are right."""
    threshold: Share = 0.5
    """ROUGE-L from which on the task counts as solved."""
    graded: bool = False
    """Whether the score is ROUGE-L itself, rather than 1 or 0 by the threshold."""


class TestsGrader(_Model):
    """Hidden tests call the solution's functions; the score is the share that passes."""

    kind: Literal["tests"]
    names: Annotated[tuple[PythonName, ...], Field(min_length=1)]
    """Names of the solution that the tests use."""
    tests: Annotated[tuple[Python, ...], Field(min_length=1, max_length=100)]
    """Test programs; each passes when it runs to its end without raising."""
    setup: Python = ""
    """Trusted code that runs before each test, after the names are bound."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Time for each test."""
    write_back: bool = False
    """Whether tests see changes that the solution makes to its arguments."""
    live: tuple[PythonName, ...] = ()
    """Functions, classes, methods and attributes that give tests objects of the solution instead of data."""


Grader = Annotated[
    ExactGrader | NumericGrader | ChoiceGrader | F1Grader | RougeGrader | TestsGrader,
    Field(discriminator="kind"),
]


class ReferenceCall(_Model):
    """One tool call of a reference solution."""

    tool: Literal["execute_bash", "str_replace_editor", "python", "submit"]
    arguments: dict[str, JsonValue] = {}
    """The tool's arguments."""

    @model_validator(mode="after")
    def _arguments_fit(self) -> Self:
        try:
            check_arguments(TOOLS, self.tool, dict(self.arguments))
        except ArgumentError as error:
            raise ValueError(str(error)) from None
        return self


class EncodedFile(_Model):
    """An input file that is not text."""

    base64: Annotated[str, AfterValidator(_valid_base64)]
    """Its bytes in base64."""


class CodeTask(_Model):
    """One task."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}$")]
    """The task's id, unique in the environment."""
    prompt: Annotated[str, StringConstraints(min_length=1)]
    """The instruction; the working directory, files and answer file are added to it."""
    grader: Grader
    """The way in which the result is graded."""
    files: dict[FilePath, str | EncodedFile] = {}
    """Input files by path: text, or an object with base64."""
    answer_file: FilePath | None = None
    """The file of the result: answer.txt when missing, solution.py for hidden tests."""
    difficulty: Literal["easy", "medium", "hard"] | None = None
    """The difficulty."""
    category: str | None = None
    """The subject."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Steps after which the episode is truncated; the environment's own when missing."""
    bare: bool = False
    """Whether the prompt is sent as it is, without the lines on input files and the place of the answer."""
    reference: tuple[ReferenceCall, ...] = ()
    """Calls that solve the task; a final submit is added when it is missing."""

    @model_validator(mode="after")
    def _files_have_places(self) -> Self:
        places = {PurePosixPath(path): path for path in self.files}
        if twice := next((path for path in self.files if path not in places.values()), None):
            raise ValueError(f"files: {twice} is there twice")
        for place in (*places, PurePosixPath(self.artifact)):
            if folder := next((places[parent] for parent in place.parents if parent in places), None):
                raise ValueError(f"files: {folder} is a file, and the folder of {place}")
        return self

    @property
    def artifact(self) -> str:
        """The file that is graded."""
        default = "solution.py" if self.grader.kind == "tests" else "answer.txt"
        return self.answer_file or default
