"""Feedback by people: a JSONL file with a row for each episode that somebody looked at.

    {"id": "1/12.3", "score": 0.7, "comment": "right answer, by luck"}
    {"id": "1/12.4", "label": "good"}

``id`` is the episode's id; a label is ``good``, which counts 1, or ``bad``, which counts 0. Rows of other
iterations may be in the file, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trainer.errors import DataError
from trainer.sft.demonstrations import invalid_line, json_rows

from .sources import Feedback

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainer.types import Trajectory

_SHOWN = 10
"""Bad rows that a message names."""


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
        bad: list[str] = []
        for _ in _valid_rows(file, bad):
            pass
        _raise_any(bad)
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
    bad: list[str] = []
    for place, read in _valid_rows(file, bad):
        if read.id.partition("/")[0] != str(number):
            continue
        if read.id in found:
            bad.append(f"{place}: id: {read.id!r} occurs twice")
        elif read.id not in known:
            bad.append(f"{place}: id: iteration {number} has no episode {read.id!r}")
        else:
            found[read.id] = read.feedback()
    _raise_any(bad)
    if not found:
        raise DataError(
            f"{file} has no row for iteration {number}; add rows for its episodes, whose ids begin with "
            f"'{number}/', and resume with --resume"
        )
    return found


def _valid_rows(file: Path, bad: list[str]) -> Iterator[tuple[str, _Row]]:
    """Yield the valid rows with their places, and add the reasons of the others to ``bad``."""
    for line, row in json_rows(file):
        place = f"{file}:{line}"
        try:
            yield place, _Row.model_validate(row)
        except ValidationError as error:
            bad.append(str(invalid_line(place, error)))


def _raise_any(bad: Sequence[str]) -> None:
    if bad:
        more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
        raise DataError(f"{len(bad)} bad rows of feedback:\n" + "\n".join([*bad[:_SHOWN], *more]))
