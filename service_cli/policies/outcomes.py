"""What became of each episode: figures, no rendering."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_client import Exchange


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
    repeat: int = 0
    """Which of the task's episodes."""
    instance_id: str | None = None
    difficulty: str = ""
    category: str = ""
    steps: int = 0
    score: float | None = None
    success: bool | None = None
    failed: Failed | None = None
    ended: str = ""
    """Why the policy ended it, where that is worth counting."""
    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0
    """The model's answers that ended at the limit of their length."""


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
