"""What a whole run amounts to: success, score, steps and tokens, by group, and failures by class."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .outcomes import EpisodeOutcome, LatencySummary


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Episodes that share a difficulty or a category."""

    name: str
    episodes: int
    graded: int
    successes: int
    mean_score: float | None
    mean_steps: float | None = None
    """Of the graded episodes, as all figures but ``episodes`` and tokens are."""
    tasks: int = 0
    """Different tasks with a graded episode."""
    tasks_solved: int = 0
    """Those of them that one of their episodes solved: pass@k, with k episodes a task."""
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


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A whole run."""

    environment: str
    splits: tuple[str, ...]
    policy: str
    concurrency: int
    elapsed_s: float
    overall: GroupSummary
    by_difficulty: tuple[GroupSummary, ...]
    by_category: tuple[GroupSummary, ...]
    failures: dict[str, int]
    """Episodes without a verdict by failure class; no task counts as failed because of them."""
    latencies: tuple[LatencySummary, ...]
    failure_codes: dict[str, int] = field(default_factory=dict)
    """The same by ``class/code``."""
    endings: dict[str, int] = field(default_factory=dict)
    """Graded episodes that the policy ended for a reason of its own, such as a full context."""
    seed: int = 0
    repeat: int = 1
    """Episodes a task."""
    model_calls: int = 0
    cut: int = 0
    """The model's answers that ended at the limit of their length."""

    @property
    def episodes_per_s(self) -> float:
        """Throughput of the run."""
        return self.overall.episodes / self.elapsed_s if self.elapsed_s > 0 else 0.0


def group(name: str, outcomes: Iterable[EpisodeOutcome]) -> GroupSummary:
    """Success and score over the graded episodes."""
    members = list(outcomes)
    graded = [outcome for outcome in members if outcome.score is not None]
    scores = [outcome.score for outcome in graded if outcome.score is not None]
    return GroupSummary(
        name=name,
        episodes=len(members),
        graded=len(graded),
        successes=sum(outcome.success is True for outcome in graded),
        mean_score=sum(scores) / len(scores) if scores else None,
        mean_steps=sum(outcome.steps for outcome in graded) / len(graded) if graded else None,
        tasks=len({outcome.task_id for outcome in graded}),
        tasks_solved=len({outcome.task_id for outcome in graded if outcome.success}),
        tokens_in=sum(outcome.tokens_in for outcome in members),
        tokens_out=sum(outcome.tokens_out for outcome in members),
    )


def groups(outcomes: Sequence[EpisodeOutcome], attribute: str) -> tuple[GroupSummary, ...]:
    """One summary for each value of an attribute; none when no episode has any."""
    named: dict[str, list[EpisodeOutcome]] = defaultdict(list)
    for outcome in outcomes:
        named[getattr(outcome, attribute)].append(outcome)
    if set(named) <= {""}:
        return ()
    return tuple(group(name or "-", named[name]) for name in sorted(named))


def failure_counts(outcomes: Iterable[EpisodeOutcome], *, codes: bool = False) -> dict[str, int]:
    """Episodes without a verdict by failure class, or by class and code."""
    failures = [outcome.failed for outcome in outcomes if outcome.failed is not None]
    return dict(
        Counter(f"{each.failure_class}/{each.code}" if codes else each.failure_class for each in failures)
    )


def ending_counts(outcomes: Iterable[EpisodeOutcome]) -> dict[str, int]:
    """Graded episodes by the reason for which the policy ended them."""
    return dict(Counter(outcome.ended for outcome in outcomes if outcome.ended and outcome.failed is None))
