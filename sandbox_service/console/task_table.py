"""Statistics of tasks, computed from the outcomes of their episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode, FailureClass

if TYPE_CHECKING:
    from sandbox_service.trajectories.search import EpisodeSummary


ENOUGH_GRADED = 8
"""Graded episodes from which on a task may be called saturated or never solved."""
_INFRASTRUCTURE = frozenset({FailureClass.SANDBOX, FailureClass.TIMEOUT})
"""Classes of failures after which ``sandbox-service run`` plays an episode again, in a fresh instance."""
_OFTEN = 0.1
_SEVERAL = 2
"""Infrastructure failures, and their share of the episodes, from which on they make a task look flaky."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task and the episodes of it that were looked at."""

    environment: str
    task_id: str
    episodes: int
    graded: int
    """Episodes with a verdict."""
    solved: int
    mean: float | None
    """Mean reward of the graded episodes."""
    spread: float | None
    """Sample standard deviation of their rewards; None for fewer than two."""
    failures: int
    """Episodes whose last failure is one of the infrastructure, whether they were graded or not."""
    flaky: tuple[str, ...]
    """Reasons to distrust its outcomes."""

    @property
    def pass_rate(self) -> float | None:
        """The share of the graded episodes that were solved."""
        return self.solved / self.graded if self.graded else None

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of the task: ``saturated`` or ``never solved``, and ``flaky``."""
        found = []
        if self.graded >= ENOUGH_GRADED and self.solved in (0, self.graded):
            found.append("saturated" if self.solved else "never solved")
        if self.flaky:
            found.append("flaky")
        return tuple(found)


SORT_KEYS: Mapping[str, Callable[[TaskRow], object]] = MappingProxyType(
    {
        "task": lambda row: (row.environment, row.task_id),
        "episodes": lambda row: row.episodes,
        "graded": lambda row: row.graded,
        "pass_rate": lambda row: row.pass_rate,
        "reward": lambda row: row.mean,
        "spread": lambda row: row.spread,
        "failures": lambda row: row.failures,
        "marks": lambda row: row.marks or None,
    }
)
"""Values by which tasks can be sorted; a task whose value is None comes last."""


def task_rows(episodes: Iterable[EpisodeSummary]) -> list[TaskRow]:
    """Return the tasks of episodes, by environment and id."""
    played: dict[tuple[str, str], list[EpisodeSummary]] = {}
    for episode in episodes:
        played.setdefault((episode.environment, episode.task_id), []).append(episode)
    return [_row(*task, played[task]) for task in sorted(played)]


def sorted_rows(rows: Iterable[TaskRow], key: str, *, descending: bool) -> list[TaskRow]:
    """Return rows sorted by one of ``SORT_KEYS``; equal ones keep their order."""
    value = SORT_KEYS[key]
    known = [(value(row), row) for row in rows]
    having = [pair for pair in known if pair[0] is not None]
    having.sort(key=lambda pair: pair[0], reverse=descending)  # type: ignore[arg-type, return-value]
    return [row for _, row in having] + [row for found, row in known if found is None]


def _row(environment: str, task_id: str, episodes: Sequence[EpisodeSummary]) -> TaskRow:
    graded = [each for each in episodes if each.success is not None]
    rewards = [each.reward for each in graded if each.reward is not None]
    failures = sum(each.failure_class in _INFRASTRUCTURE for each in episodes)
    return TaskRow(
        environment,
        task_id,
        episodes=len(episodes),
        graded=len(graded),
        solved=sum(each.success is True for each in graded),
        mean=fmean(rewards) if rewards else None,
        spread=stdev(rewards) if len(rewards) > 1 else None,
        failures=failures,
        flaky=tuple(_reasons(episodes, failures)),
    )


def _reasons(episodes: Sequence[EpisodeSummary], failures: int) -> Iterable[str]:
    """Yield reasons to call a task flaky."""
    if regraded := sum(each.regraded_differently for each in episodes):
        yield f"{regraded} graded differently without a change in between"
    if broken := sum(each.failure_code == ErrorCode.GRADER_FAILED for each in episodes):
        yield f"the grader failed in {broken}"
    if failures >= _SEVERAL and failures >= _OFTEN * len(episodes):
        yield f"the infrastructure failed in {failures} of {len(episodes)}"
