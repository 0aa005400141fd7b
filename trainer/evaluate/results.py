"""Results of an evaluation, task by task: a line of JSON, and rates with intervals.

A failed episode has no score: it counts as a failure of its task, never as unsolved.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from trainer.errors import DataError

if TYPE_CHECKING:
    from trainer.types import Trajectory


When: TypeAlias = Literal["before", "during", "after", "alone"]
"""Position in a run; ``alone`` is an evaluation without training."""

_NORMAL_95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% interval."""

    low: float
    high: float


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
    seconds: float = 0.0
    """Wall clock."""

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
    def success_rate(self) -> float:
        """Share of solved episodes among those with a score; 0 without any."""
        return self.successes / self.episodes if self.episodes else 0.0

    @property
    def mean_score(self) -> float:
        """Mean over episodes with a score; 0 without any."""
        total = sum(task.mean_score * task.episodes for task in self.tasks)
        return total / self.episodes if self.episodes else 0.0

    @property
    def interval(self) -> Interval:
        """Interval of the success rate; see ``wilson``."""
        return wilson(self.successes, self.episodes)

    def by_difficulty(self) -> dict[str, EvaluationResult]:
        """Return the result of each difficulty, in order of first appearance."""
        return {
            difficulty: EvaluationResult(
                self.step,
                self.when,
                self.split,
                tuple(task for task in self.tasks if task.difficulty == difficulty),
                self.environment,
                self.seconds,
            )
            for difficulty in dict.fromkeys(task.difficulty for task in self.tasks)
        }

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> EvaluationResult:
        """Parse the output of ``to_json``. Raises DataError."""
        try:
            tree = json.loads(text)
            tasks = tuple(TaskOutcome(**task) for task in tree.pop("tasks"))
            result = cls(tasks=tasks, **tree)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"not an evaluation: {error}") from error
        if result.when not in get_args(When):
            raise DataError(f"not an evaluation: when is {result.when!r}")
        return result


def wilson(successes: int, episodes: int) -> Interval:
    """Return the interval of a share (Wilson 1927), assuming independent episodes.

    Episodes of one task are correlated: ``compare`` therefore resamples whole tasks.
    """
    if not episodes:
        return Interval(0.0, 1.0)
    share, square = successes / episodes, _NORMAL_95**2
    scale = 1 + square / episodes
    centre = (share + square / (2 * episodes)) / scale
    spread = share * (1 - share) / episodes + square / (4 * episodes**2)
    half = _NORMAL_95 * math.sqrt(spread) / scale
    # Without successes or failures a bound is exactly 0 or 1, from which the sums deviate by rounding.
    low = centre - half if successes else 0.0
    high = centre + half if successes < episodes else 1.0
    return Interval(low, high)


def summarise(
    trajectories: Iterable[Trajectory], *, step: int, when: When, seconds: float = 0.0
) -> EvaluationResult:
    """Summarise played episodes, with tasks in order of first appearance."""
    by_task: dict[tuple[str, str, str], list[Trajectory]] = {}
    for trajectory in trajectories:
        task = trajectory.task
        by_task.setdefault((task.environment, task.split, task.task_id), []).append(trajectory)
    return EvaluationResult(
        step,
        when,
        "+".join(dict.fromkeys(split for _, split, _ in by_task)),
        tuple(_outcome(played) for played in by_task.values()),
        "+".join(dict.fromkeys(environment for environment, _, _ in by_task)),
        seconds,
    )


def _outcome(played: list[Trajectory]) -> TaskOutcome:
    scores = [trajectory.score for trajectory in played if trajectory.scored and trajectory.score is not None]
    return TaskOutcome(
        task_id=played[0].task.task_id,
        difficulty=played[0].task.difficulty,
        episodes=len(scores),
        successes=sum(bool(trajectory.success) for trajectory in played if trajectory.scored),
        mean_score=sum(scores) / len(scores) if scores else 0.0,
        failures=len(played) - len(scores),
    )


def append_evaluation(file: Path, result: EvaluationResult) -> None:
    """Append a line to ``evaluations.jsonl``."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(result.to_json() + "\n")


def read_evaluations(file: Path) -> tuple[EvaluationResult, ...]:
    """Return all lines of ``evaluations.jsonl``; empty when the file does not exist. Raises DataError."""
    if not file.exists():
        return ()
    results = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            results.append(EvaluationResult.from_json(line))
        except DataError as error:
            raise DataError(f"{file}, line {number}: {error}") from error
    return tuple(results)
