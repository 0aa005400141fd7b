"""What became of each episode, and of a whole run: figures, no rendering."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clients import Exchange

__all__ = [
    "EpisodeOutcome",
    "Failed",
    "GroupSummary",
    "LatencySummary",
    "Recorder",
    "RunSummary",
    "percentile",
]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why an episode has no verdict."""

    failure_class: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """One episode: graded, or failed. A failure is never a score."""

    task_id: str
    elapsed_s: float
    instance_id: str | None = None
    difficulty: str = ""
    category: str = ""
    steps: int = 0
    score: float | None = None
    success: bool | None = None
    failed: Failed | None = None


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Episodes that share a difficulty or a category."""

    name: str
    episodes: int
    graded: int
    successes: int
    mean_score: float | None


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """How long one verb took, seen from the client, in milliseconds."""

    verb: str
    calls: int
    p50_ms: float
    p95_ms: float
    max_ms: float
    run_p50_ms: float | None
    """Time in the sandbox alone, where the service told it."""


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

    @property
    def episodes_per_s(self) -> float:
        """Throughput of the run."""
        return self.overall.episodes / self.elapsed_s if self.elapsed_s > 0 else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class Recorder:
    """Collects what the client tells of each call."""

    elapsed_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    run_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, exchange: Exchange) -> None:
        self.elapsed_ms[exchange.verb].append(exchange.elapsed_s * 1e3)
        if "run" in exchange.timing_ms:
            self.run_ms[exchange.verb].append(exchange.timing_ms["run"])

    def summaries(self) -> tuple[LatencySummary, ...]:
        """Percentiles by verb, in the order in which the verbs were first used."""
        return tuple(self._summary(verb, values) for verb, values in self.elapsed_ms.items())

    def _summary(self, verb: str, values: list[float]) -> LatencySummary:
        run = self.run_ms.get(verb)
        return LatencySummary(
            verb=verb,
            calls=len(values),
            p50_ms=percentile(values, 0.50),
            p95_ms=percentile(values, 0.95),
            max_ms=max(values),
            run_p50_ms=percentile(run, 0.50) if run else None,
        )


def group(name: str, outcomes: Iterable[EpisodeOutcome]) -> GroupSummary:
    """Success and score over the graded episodes."""
    members = list(outcomes)
    scores = [outcome.score for outcome in members if outcome.score is not None]
    return GroupSummary(
        name=name,
        episodes=len(members),
        graded=len(scores),
        successes=sum(outcome.success is True for outcome in members),
        mean_score=sum(scores) / len(scores) if scores else None,
    )


def groups(outcomes: Sequence[EpisodeOutcome], attribute: str) -> tuple[GroupSummary, ...]:
    """One summary for each value of an attribute; none when no episode has any."""
    named: dict[str, list[EpisodeOutcome]] = defaultdict(list)
    for outcome in outcomes:
        named[getattr(outcome, attribute)].append(outcome)
    if set(named) <= {""}:
        return ()
    return tuple(group(name or "-", named[name]) for name in sorted(named))


def failure_counts(outcomes: Iterable[EpisodeOutcome]) -> dict[str, int]:
    """Episodes without a verdict by failure class."""
    return dict(Counter(outcome.failed.failure_class for outcome in outcomes if outcome.failed is not None))
