"""Results of an evaluation, task by task: a line of JSON, and rates with intervals.

A failed episode has no score: it counts as a failure of its task, never as unsolved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from sandbox_settings import first_mistake
from trainer.errors import DataError

from .intervals import Interval, wilson

When: TypeAlias = Literal["before", "during", "after", "alone"]
"""Position in a run; ``alone`` is an evaluation without training."""


@dataclass(frozen=True, slots=True)
class EpisodeTotals:
    """Sums over the episodes of a task that have a score."""

    reward: float | None = None
    """Composed reward, by the run's ``reward`` settings; None where it was not composed."""
    turns: int = 0
    tokens: int = 0
    """Sampled tokens."""
    seconds: float = 0.0
    """Waiting, sampling, sandbox and grading."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """All episodes of one task."""

    task_id: str
    difficulty: str
    """The environment's own name for it; empty when it has none."""
    episodes: int
    """Episodes with a score."""
    successes: int
    mean_score: float
    """Mean over episodes with a score; 0 without any."""
    failures: int = 0
    """Failed episodes, which have no score."""
    environment: str = ""
    """Empty in files of earlier versions, whose evaluations have one environment."""
    split: str = ""
    """Empty in files of earlier versions."""
    category: str = ""
    """The environment's own name for it; empty when it has none."""
    totals: EpisodeTotals | None = None
    """None in files of earlier versions."""
    causes: Mapping[str, int] = field(default_factory=dict)
    """Unsolved episodes by their cause, an ``UnsolvedCause``."""
    failure_classes: Mapping[str, int] = field(default_factory=dict)
    """Failed episodes by failure class."""
    source: str = ""
    """Name of its source in a run of several."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """One evaluation of one model on one set of tasks."""

    step: int
    """Updates of the evaluated weights, those of the warm start included."""
    when: When
    split: str
    """Several splits are joined by ``+``."""
    tasks: tuple[TaskOutcome, ...]
    environment: str = ""
    """Several environments are joined by ``+``."""
    seconds: float = 0.0
    """Wall clock."""
    policy: str = ""
    """The model's folder, or the name of another policy; empty in files of earlier versions."""

    @property
    def episodes(self) -> int:
        """Episodes with a score."""
        return sum(task.episodes for task in self.tasks)

    @property
    def successes(self) -> int:
        """Solved episodes."""
        return sum(task.successes for task in self.tasks)

    @property
    def failures(self) -> int:
        """Episodes without a score."""
        return sum(task.failures for task in self.tasks)

    @property
    def success_rate(self) -> float | None:
        """Share of solved episodes among those with a score; None without any."""
        return self.successes / self.episodes if self.episodes else None

    @property
    def mean_score(self) -> float | None:
        """Mean over episodes with a score; None without any."""
        total = sum(task.mean_score * task.episodes for task in self.tasks)
        return total / self.episodes if self.episodes else None

    @property
    def interval(self) -> Interval:
        """Interval of the success rate, from 0 to 1 without a score; see ``wilson``."""
        return wilson(self.successes, self.episodes)

    def by_difficulty(self) -> dict[str, EvaluationResult]:
        """Return the result of each difficulty, in order of first appearance."""
        return self.grouped(lambda task: task.difficulty)

    def grouped(self, name: Callable[[TaskOutcome], str]) -> dict[str, EvaluationResult]:
        """Return the results of the tasks of each name, in order of first appearance."""
        groups: dict[str, list[TaskOutcome]] = {}
        for task in self.tasks:
            groups.setdefault(name(task), []).append(task)
        return {each: replace(self, tasks=tuple(tasks)) for each, tasks in groups.items()}

    def by_source(self) -> dict[str, EvaluationResult]:
        """Return the result of each source of a run of several, in order; empty in a run of one."""
        return {name: part for name, part in self.grouped(lambda task: task.source).items() if name}

    def parts(self) -> dict[str, EvaluationResult]:
        """Return the results by source, or by difficulty in a run of one; empty without two of either."""
        found = self.by_source() or self.by_difficulty()
        return found if len(found) > 1 else {}

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> EvaluationResult:
        """Parse the output of ``to_json``, of earlier versions too. Raises DataError."""
        try:
            return _RESULTS.validate_json(text)
        except ValidationError as error:
            raise DataError(f"not an evaluation: {first_mistake(error)}") from error


_RESULTS = TypeAdapter(EvaluationResult)


def append_evaluation(file: Path, result: EvaluationResult) -> None:
    """Append a line to ``evaluations.jsonl``."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(result.to_json() + "\n")


def read_evaluations(file: Path) -> tuple[EvaluationResult, ...]:
    """Return all lines of ``evaluations.jsonl``; empty when the file does not exist. Raises DataError.

    A last line without its line feed is left out: a run is writing it, or was killed while it did.
    """
    if not file.exists():
        return ()
    results = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                results.append(EvaluationResult.from_json(line))
            except DataError as error:
                raise DataError(f"{file}, line {number}: {error}") from error
    return tuple(results)
