"""Outcomes of episodes and latencies of calls."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_client import Exchange


@dataclass(frozen=True, slots=True)
class EpisodeFailure:
    """The reason why an episode was not graded."""

    failure_class: str
    code: str
    detail: str
    retry_after_s: float | None = None
    """Seconds to wait before the next attempt, if the service gave them."""

    @property
    def qualified_code(self) -> str:
        """Failure class and code."""
        return f"{self.failure_class}/{self.code}"


@dataclass(frozen=True, slots=True)
class PlayedOutcome:
    """One episode, graded or failed. A failed episode has no score."""

    task_id: str
    elapsed_s: float
    repeat: int = 0
    """Number of the episode among those of its task."""
    seed: int | None = None
    """Seed of its instance."""
    instance_id: str | None = None
    difficulty: str = ""
    category: str = ""
    steps: int = 0
    """Steps of the agent; messages of a counterpart are none."""
    score: float | None = None
    success: bool | None = None
    failed: EpisodeFailure | None = None
    retried: tuple[EpisodeFailure, ...] = ()
    """The failures after which the episode was played again; all else is of its last instance, but for time,
    calls and tokens, which are those of all.
    """
    ended: str = ""
    """The reason why the policy ended the episode, if it is counted."""
    stop: str = ""
    """``terminated`` or ``truncated`` by the environment, ``max_steps``, or ``policy`` if the policy ended
    it; empty for a failed episode.
    """
    understood: bool | None = None
    """Whether the last step held an action that the environment understood; None if it does not say."""
    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0
    """Answers of the model that were truncated at the maximum length."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies of one operation as seen by the client, in milliseconds."""

    verb: str
    calls: int
    p50_ms: float
    p95_ms: float
    max_ms: float
    run_p50_ms: float | None
    """Median time in the sandbox, if the service reported it."""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that ``share`` of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class LatencyRecorder:
    """Collects the latency of each call, as an observer of the client."""

    elapsed_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    run_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, exchange: Exchange) -> None:
        self.elapsed_ms[exchange.verb].append(exchange.elapsed_s * 1e3)
        if "run" in exchange.timing_ms:
            self.run_ms[exchange.verb].append(exchange.timing_ms["run"])

    def summaries(self) -> tuple[LatencySummary, ...]:
        """Return percentiles by operation, in order of first use."""
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
