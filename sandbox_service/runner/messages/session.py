"""Messages between a worker and an agent's Python session; nothing from the session is trusted.

The kinds of the second list come from agent territory: a cell can forge every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sandbox_service.wire.json_types import JsonObject  # noqa: TC001 - the codec reads the fields' types

from .codec import Codec, JsonValue, RunnerMessage


@dataclass(frozen=True, slots=True)
class RunCell(RunnerMessage):
    """Run the code that comes with this; the descriptor beside it takes the output."""

    kind: ClassVar[str] = "run_cell"
    number: int
    serves: bool
    """Whether the world answers questions of this cell."""


@dataclass(frozen=True, slots=True)
class ForkSession(RunnerMessage):
    """Leave a copy behind, which serves the socket that comes with this."""

    kind: ClassVar[str] = "fork_session"


@dataclass(frozen=True, slots=True)
class MoveSession(RunnerMessage):
    """Go from one workspace to the same place in another."""

    kind: ClassVar[str] = "move_session"
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class QuestionAnswer(RunnerMessage):
    """The world's answer to a question of a cell."""

    kind: ClassVar[str] = "question_answer"
    cell: int
    question: int
    value: JsonObject


@dataclass(frozen=True, slots=True)
class QuestionRefused(RunnerMessage):
    """A question of a cell that the world was not asked."""

    kind: ClassVar[str] = "question_refused"
    cell: int
    question: int
    detail: str


@dataclass(frozen=True, slots=True)
class CellDone(RunnerMessage):
    """A cell is over; ``ok`` is False after an exception."""

    kind: ClassVar[str] = "cell_done"
    number: int
    ok: bool


@dataclass(frozen=True, slots=True)
class Question(RunnerMessage):
    """A cell asks its world."""

    kind: ClassVar[str] = "question"
    cell: int
    question: int
    request: JsonValue
    """The argument of the cell's ``ask``: the world is asked when it is an object."""


@dataclass(frozen=True, slots=True)
class SessionForked(RunnerMessage):
    """The first message of a session's copy, over its own socket."""

    kind: ClassVar[str] = "session_forked"
    pid: int


@dataclass(frozen=True, slots=True)
class Moved(RunnerMessage):
    """The session has gone to its workspace."""

    kind: ClassVar[str] = "moved"


Answer = QuestionAnswer | QuestionRefused
Request = RunCell | ForkSession | MoveSession | Answer
REQUESTS = Codec[Request](RunCell, ForkSession, MoveSession, QuestionAnswer, QuestionRefused)
ANSWERS = Codec[Answer](QuestionAnswer, QuestionRefused)
REPORTS = Codec[CellDone | Question | SessionForked | Moved](CellDone, Question, SessionForked, Moved)
