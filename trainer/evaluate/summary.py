"""Figures of an evaluation with intervals over tasks: of all tasks and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import ConfigError

from .intervals import Interval, bootstrap_interval, success_interval
from .pass_at import pass_at_k

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from .results import EvaluationResult, TaskOutcome


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share with its interval over tasks."""

    value: float
    interval: Interval
    tasks: int
    """Tasks that it is estimated from."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean of a quantity without bounds, with its interval over tasks."""

    value: float
    interval: Interval | None
    """None for one task, which says nothing of others."""
    tasks: int
    """Tasks that it is estimated from."""


@dataclass(frozen=True, slots=True)
class EvaluationFigures:
    """The figures of some tasks of an evaluation."""

    tasks: int
    episodes: int
    """Episodes with a score."""
    successes: int
    success: Estimate | None
    """Share of solved episodes, which is avg@k for every k; None without a score."""
    pass_at: Mapping[int, Estimate]
    """pass@k by k, over the tasks that have at least k episodes with a score."""
    score: float | None
    """Mean score of an episode."""
    reward: MeanEstimate | None
    """Mean composed reward of an episode; None, like those below, where no file has it."""
    turns: MeanEstimate | None
    tokens: MeanEstimate | None
    seconds: MeanEstimate | None
    causes: Mapping[str, int]
    """Unsolved episodes by cause, the most frequent first."""
    failures: int
    """Episodes without a score."""
    failure_classes: Mapping[str, int]
    """Failed episodes by class, the most frequent first."""


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """The figures of all tasks and of each group that has some of them."""

    overall: EvaluationFigures
    by_source: Mapping[str, EvaluationFigures]
    """Empty, like those below, if all tasks belong to one group."""
    by_environment: Mapping[str, EvaluationFigures]
    by_split: Mapping[str, EvaluationFigures]
    by_category: Mapping[str, EvaluationFigures]
    by_difficulty: Mapping[str, EvaluationFigures]

    def sections(self) -> dict[str, Mapping[str, EvaluationFigures]]:
        """Return the groups by what they are grouped by, without empty sections."""
        named = {
            "source": self.by_source,
            "environment": self.by_environment,
            "split": self.by_split,
            "category": self.by_category,
            "difficulty": self.by_difficulty,
        }
        return {name: groups for name, groups in named.items() if groups}

    def tree(self) -> dict[str, object]:
        """Return the summary as JSON."""
        return asdict(self)


def summary_of(result: EvaluationResult, ks: Sequence[int] = (1,)) -> EvaluationSummary:
    """Return the figures of an evaluation, with pass@k for each k.

    Raises ConfigError for a k that exceeds the episodes of every task.
    """
    most = max((task.episodes + task.failures for task in result.tasks), default=0)
    for k in ks:
        if result.tasks and k > most:
            raise ConfigError(
                f"pass@{k} needs at least {k} episodes of a task, and the evaluation played {most}; set "
                f"evaluation.episodes={k}"
            )

    def groups(name: Callable[[TaskOutcome], str]) -> dict[str, EvaluationFigures]:
        parts = result.grouped(name)
        if len(parts) < 2:
            return {}
        return {each: figures_of(part.tasks, ks) for each, part in parts.items()}

    return EvaluationSummary(
        overall=figures_of(result.tasks, ks),
        by_source=groups(lambda task: task.source),
        by_environment=groups(lambda task: task.environment),
        by_split=groups(lambda task: task.split),
        by_category=groups(lambda task: task.category),
        by_difficulty=groups(lambda task: task.difficulty),
    )


def figures_of(
    tasks: Sequence[TaskOutcome], ks: Sequence[int] = (1,), *, by_task: bool = False
) -> EvaluationFigures:
    """Return the figures of some tasks. A task without a scored episode counts in failures only.

    Means are over episodes, or ``by_task``: over tasks, each with the mean of its episodes, so that episodes
    without a score do not set one model apart from another.
    """
    scored = [task for task in tasks if task.episodes]
    weights_P = np.array([1 if by_task else task.episodes for task in scored], dtype=np.float64)
    return EvaluationFigures(
        tasks=len(tasks),
        episodes=sum(task.episodes for task in scored),
        successes=sum(task.successes for task in scored),
        success=_success(scored, weights_P),
        pass_at={k: found for k in ks if (found := pass_at_of(scored, k)) is not None},
        score=float(np.average([task.mean_score for task in scored], weights=weights_P)) if scored else None,
        reward=_mean(scored, "reward", weights_P),
        turns=_mean(scored, "turns", weights_P),
        tokens=_mean(scored, "tokens", weights_P),
        seconds=_mean(scored, "seconds", weights_P),
        causes=_summed(task.causes for task in tasks),
        failures=sum(task.failures for task in tasks),
        failure_classes=_summed(task.failure_classes for task in tasks),
    )


def _success(scored: Sequence[TaskOutcome], weights_P: NDArray[np.float64]) -> Estimate | None:
    if not scored:
        return None
    counts_P2 = np.array([(task.successes, task.episodes) for task in scored], dtype=np.float64)
    successes_P = counts_P2[:, 0] * weights_P / counts_P2[:, 1]
    rate = float(successes_P.sum() / weights_P.sum())
    return Estimate(rate, success_interval(successes_P, weights_P), len(scored))


def pass_at_of(scored: Sequence[TaskOutcome], k: int) -> Estimate | None:
    """Return pass@k of the tasks that have at least k episodes with a score; None without one."""
    chances = [pass_at_k(task.episodes, task.successes, k) for task in scored if task.episodes >= k]
    if not chances:
        return None
    chances_P = np.array(chances)
    interval = success_interval(chances_P, np.ones_like(chances_P))
    return Estimate(float(chances_P.mean()), interval, len(chances))


def _mean(scored: Sequence[TaskOutcome], name: str, weights_P: NDArray[np.float64]) -> MeanEstimate | None:
    known = [
        (total * (weight / task.episodes), weight)
        for task, weight in zip(scored, weights_P, strict=True)
        if task.totals is not None and (total := getattr(task.totals, name)) is not None
    ]
    if not known:
        return None
    totals_P, known_P = np.array(known).T
    mean = float(totals_P.sum() / known_P.sum())
    interval = bootstrap_interval(totals_P, known_P) if len(known) > 1 else None
    return MeanEstimate(mean, interval, len(known))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common())
