"""Summarise a run: success, score, steps and tokens by group, and failures by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .outcomes import LatencySummary, PlayedOutcome


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Episodes that share a difficulty or a category."""

    name: str
    episodes: int
    graded: int
    successes: int
    mean_score: float | None
    mean_steps: float | None = None
    """Of the graded episodes, like all figures except ``episodes`` and tokens."""
    tasks: int = 0
    """Distinct tasks with a graded episode."""
    tasks_solved: int = 0
    """Tasks that at least one of their k episodes solved, for pass@k."""
    fewest_graded: int = 0
    """Graded episodes of the task with the fewest, of those that have one: if less than k, pass@k is too low.
    """
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def success_rate(self) -> float | None:
        """Share of the graded episodes that solved their task."""
        return self.successes / self.graded if self.graded else None

    @property
    def pass_at_k(self) -> float | None:
        """Share of the graded tasks that were solved at least once."""
        return self.tasks_solved / self.tasks if self.tasks else None

    def figures(self) -> dict[str, object]:
        """Return all figures by name."""
        return asdict(self) | {"success_rate": self.success_rate, "pass_at_k": self.pass_at_k}


@dataclass(frozen=True, slots=True)
class PolicyRunSummary:
    """The summary of a run."""

    environment: str
    splits: tuple[str, ...]
    policy: str
    concurrency: int
    elapsed_s: float
    overall: GroupSummary
    by_difficulty: tuple[GroupSummary, ...]
    by_category: tuple[GroupSummary, ...]
    failures: dict[str, int]
    """Failed episodes by failure class; they do not count as unsolved."""
    latencies: tuple[LatencySummary, ...]
    failure_codes: dict[str, int] = field(default_factory=dict)
    """Failed episodes by ``class/code``."""
    retries: dict[str, int] = field(default_factory=dict)
    """Failures by ``class/code`` after which an episode was played again in a fresh instance."""
    endings: dict[str, int] = field(default_factory=dict)
    """Graded episodes that the policy ended, by reason, such as a full context."""
    seed: int = 0
    repeat: int = 1
    """Episodes per task."""
    model_calls: int = 0
    cut: int = 0
    """Answers of the model that were truncated at the maximum length."""

    @property
    def episodes_per_s(self) -> float:
        """Episodes per second."""
        return self.overall.episodes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def figures(self) -> dict[str, object]:
        """Return all figures by name."""
        return asdict(self) | {
            "overall": self.overall.figures(),
            "by_difficulty": [each.figures() for each in self.by_difficulty],
            "by_category": [each.figures() for each in self.by_category],
            "episodes_per_s": self.episodes_per_s,
        }


def group(name: str, outcomes: Iterable[PlayedOutcome]) -> GroupSummary:
    """Summarise a group of episodes."""
    members = list(outcomes)
    graded = [outcome for outcome in members if outcome.score is not None]
    scores = [outcome.score for outcome in graded if outcome.score is not None]
    graded_by_task = Counter(outcome.task_id for outcome in graded)
    return GroupSummary(
        name=name,
        episodes=len(members),
        graded=len(graded),
        successes=sum(outcome.success is True for outcome in graded),
        mean_score=sum(scores) / len(scores) if scores else None,
        mean_steps=sum(outcome.steps for outcome in graded) / len(graded) if graded else None,
        tasks=len(graded_by_task),
        tasks_solved=len({outcome.task_id for outcome in graded if outcome.success}),
        fewest_graded=min(graded_by_task.values(), default=0),
        tokens_in=sum(outcome.tokens_in for outcome in members),
        tokens_out=sum(outcome.tokens_out for outcome in members),
    )


def groups(outcomes: Sequence[PlayedOutcome], attribute: str) -> tuple[GroupSummary, ...]:
    """Return a summary for each value of an attribute, none if no episode has a value."""
    named: dict[str, list[PlayedOutcome]] = defaultdict(list)
    for outcome in outcomes:
        named[getattr(outcome, attribute)].append(outcome)
    if set(named) <= {""}:
        return ()
    return tuple(group(name or "-", named[name]) for name in sorted(named))


def failure_counts(outcomes: Iterable[PlayedOutcome], *, codes: bool = False) -> dict[str, int]:
    """Count failed episodes by failure class, or by class and code."""
    failures = [outcome.failed for outcome in outcomes if outcome.failed is not None]
    return dict(Counter(each.qualified_code if codes else each.failure_class for each in failures))


def retry_counts(outcomes: Iterable[PlayedOutcome]) -> dict[str, int]:
    """Count the failures, by class and code, after which an episode was played again."""
    return dict(Counter(each.qualified_code for outcome in outcomes for each in outcome.retried))


def ending_counts(outcomes: Iterable[PlayedOutcome]) -> dict[str, int]:
    """Count graded episodes by the reason for which the policy ended them."""
    return dict(Counter(outcome.ended for outcome in outcomes if outcome.ended and outcome.failed is None))
