"""Feedback by people: a JSONL file with a row for each episode that somebody looked at.

    {"id": "1/12.3", "score": 0.7, "comment": "right answer, by luck"}
    {"id": "1/12.4", "label": "good"}

``id`` is the episode's id; a label is ``good``, which counts 1, or ``bad``, which counts 0. Rows of other
iterations may be in the file, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainer.errors import DataError
from trainer.recorded.bad_rows import BadRows
from trainer.sft.demonstrations import invalid_field, json_rows

from .sources import Feedback

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainer.types import Trajectory


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(min_length=1)
    score: float | None = None
    label: Literal["good", "bad"] | None = None
    comment: str = ""

    @model_validator(mode="after")
    def _has_one_opinion(self) -> _Row:
        if (self.score is None) == (self.label is None):
            raise ValueError("a row needs either a score or a label")
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"the score is {self.score}, which is no finite number")
        return self

    def feedback(self) -> Feedback:
        """Return the row's opinion."""
        value = self.score if self.score is not None else float(self.label == "good")
        return Feedback(value, self.comment)


class PeopleFeedback:
    """Implements ``FeedbackSource`` with the rows of a file."""

    def __init__(self, rows: Mapping[str, Feedback]) -> None:
        self._rows = rows

    async def give_feedback(self, episode: Trajectory) -> Feedback | None:
        return self._rows.get(episode.id)

    async def close(self) -> None:
        pass


def check_file(file: Path) -> None:
    """Check the rows of a file, of whatever iteration, if it is there already; people may write it later.

    Raises DataError, naming the bad rows with line and reason, and for a file that cannot be written there.
    """
    if file.exists():
        _check_rows(file, lambda row: None)
    elif not file.parent.is_dir():
        raise DataError(
            f"evolve.feedback.people: there is no folder {file.parent} for {file.name}; create it"
        )


def read_feedback(file: Path, number: int, known: Collection[str]) -> dict[str, Feedback]:
    """Return the feedback on the episodes of an iteration by their ids.

    Raises DataError, naming the bad rows with line and reason, for rows that are invalid, name an episode
    twice, or name one that the iteration did not play; and for a file without a row of the iteration.
    """
    found: dict[str, Feedback] = {}

    def reason(row: _Row) -> str | None:
        if row.id.partition("/")[0] != str(number):
            return None
        if row.id in found:
            return f"id: {row.id!r} occurs twice"
        if row.id not in known:
            return f"id: iteration {number} has no episode {row.id!r}"
        found[row.id] = row.feedback()
        return None

    _check_rows(file, reason)
    if not found:
        raise DataError(
            f"{file} has no row for iteration {number}; add rows for its episodes, whose ids begin with "
            f"'{number}/', and resume with --resume"
        )
    return found


def _check_rows(file: Path, reason: Callable[[_Row], str | None]) -> None:
    """Read all rows; ``reason`` returns why a valid one cannot be used, None if it can. Raises DataError."""
    bad = BadRows()
    read = 0
    for line, value in json_rows(file):
        read += 1
        try:
            why = reason(_Row.model_validate(value))
        except ValidationError as error:
            why = invalid_field(error)
        if why is not None:
            bad.add(f"{file}:{line}", why)
    bad.raise_any(read)
