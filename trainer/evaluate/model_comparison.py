"""Compare any number of evaluations of the same splits: figures, paired differences and tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import ConfigError, DataError

from .comparison import compare_rates
from .paired_tests import holm, sign_test
from .summary import figures_of, pass_at_of
from .task_keys import task_keys

if TYPE_CHECKING:
    from .intervals import Interval
    from .results import EvaluationResult, TaskOutcome
    from .summary import EvaluationFigures
    from .task_keys import TaskKey


SIGNIFICANT = 0.05
"""Adjusted p-values below it count as a difference."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The difference between two models on the tasks that both have a score for."""

    first: str
    second: str
    tasks: int
    difference: float
    """Success rate of the second minus that of the first, each task counting the same."""
    interval: Interval
    """95% interval of the difference: paired bootstrap over tasks."""
    wins: int
    """Tasks that the second solves more often than the first."""
    losses: int
    test: str
    """``McNemar`` if every task has one episode in both, otherwise ``sign test``."""
    p_value: float
    adjusted: float
    """p-value after Holm's correction for all pairs."""

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value shows a difference."""
        return self.adjusted < SIGNIFICANT


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Evaluations by name, on the tasks that all of them have a score for."""

    environment: str
    split: str
    tasks: int
    """Tasks that all have a score for; the figures are over these, each counting the same."""
    ks: tuple[int, ...]
    """Values of k for pass@k."""
    models: Mapping[str, EvaluationFigures]
    pairs: tuple[PairedTest, ...]
    missing: Mapping[str, tuple[str, ...]]
    """By model, the tasks that it has no score for and another one has."""
    rates: Mapping[str, tuple[float, ...]]
    """By common task, the success rate of each model in their order."""

    def tree(self) -> dict[str, object]:
        """Return the comparison as JSON."""
        return asdict(self)


def compare_models(results: Mapping[str, EvaluationResult], ks: Sequence[int] = ()) -> ModelComparison:
    """Compare evaluations by name, with pass@k for each k; by default for 1 and the number of episodes.

    Raises ConfigError for fewer than two of them or a k that exceeds the episodes, and DataError if they are
    of different splits, share no task with a score or have a task twice.
    """
    if len(results) < 2:
        raise ConfigError(f"a comparison needs at least two evaluations, and there is {len(results)}")
    named = _by_key(results)
    _check_splits(results, named)
    every = dict.fromkeys(key for tasks in named.values() for key in tasks)
    scored = {name: {key for key, task in tasks.items() if task.episodes} for name, tasks in named.items()}
    common = [key for key in every if all(key in keys for keys in scored.values())]
    if not common:
        raise DataError(f"{', '.join(results)} have no task in common that all have a score for")
    shared = {name: [tasks[key] for key in common] for name, tasks in named.items()}
    chosen = _checked(ks, shared) if ks else _default(shared)
    first = next(iter(results.values()))
    missing = {
        name: tuple(_text(key) for key in every if key not in keys and any(key in s for s in scored.values()))
        for name, keys in scored.items()
    }
    return ModelComparison(
        environment=first.environment,
        split=first.split,
        tasks=len(common),
        ks=chosen,
        models=_figures(shared, chosen),
        pairs=_tested(named),
        missing={name: keys for name, keys in missing.items() if keys},
        rates={
            _text(key): tuple(named[name][key].successes / named[name][key].episodes for name in named)
            for key in common
        },
    )


def _figures(shared: Mapping[str, Sequence[TaskOutcome]], ks: Sequence[int]) -> dict[str, EvaluationFigures]:
    """Return the figures of each model by task, with pass@k over the tasks that it can be had of in all."""
    least = [min(task.episodes for task in same) for same in zip(*shared.values(), strict=True)]
    figures = {}
    for name, tasks in shared.items():
        whole = {k: [task for task, count in zip(tasks, least, strict=True) if count >= k] for k in ks}
        pass_at = {k: found for k in ks if (found := pass_at_of(whole[k], k)) is not None}
        figures[name] = replace(figures_of(tasks, (), by_task=True), pass_at=pass_at)
    return figures


def _by_key(results: Mapping[str, EvaluationResult]) -> dict[str, dict[TaskKey, TaskOutcome]]:
    """Return the tasks of each evaluation by their keys. Raises DataError for two of one key."""
    named: dict[str, dict[TaskKey, TaskOutcome]] = {}
    for (name, result), keys in zip(results.items(), task_keys(results.values()), strict=True):
        tasks = named[name] = dict(zip(keys, result.tasks, strict=True))
        if len(tasks) < len(keys):
            twice = next(key for key, count in Counter(keys).items() if count > 1)
            raise DataError(f"{name} has the task {_text(twice)} twice, so that it cannot be compared")
    return named


def _check_splits(
    results: Mapping[str, EvaluationResult], named: Mapping[str, Mapping[TaskKey, TaskOutcome]]
) -> None:
    # By name, since a file of an earlier version joins the names of several splits.
    first, *others = results
    own = _splits(results[first], named[first])
    for other in others:
        theirs = _splits(results[other], named[other])
        if theirs != own:
            raise DataError(
                f"{first} is of {', '.join(sorted(own))}, and {other} is of {', '.join(sorted(theirs))}: "
                "compare evaluations of the same splits"
            )


def _splits(result: EvaluationResult, tasks: Mapping[TaskKey, TaskOutcome]) -> set[str]:
    return {f"{environment}/{split}" for _, environment, split, _ in tasks} or {result.split}


def _default(shared: Mapping[str, Sequence[TaskOutcome]]) -> tuple[int, ...]:
    least = min(task.episodes for tasks in shared.values() for task in tasks)
    return (1, least) if least > 1 else (1,)


def _checked(ks: Sequence[int], shared: Mapping[str, Sequence[TaskOutcome]]) -> tuple[int, ...]:
    for name, tasks in shared.items():
        most = max(task.episodes for task in tasks)
        for k in ks:
            if not 1 <= k <= most:
                raise ConfigError(f"pass@{k} needs at least {k} episodes of a task, and {name} has {most}")
    return tuple(ks)


def _tested(named: Mapping[str, Mapping[TaskKey, TaskOutcome]]) -> tuple[PairedTest, ...]:
    """Return the test of every pair, on the tasks that the two have a score for."""
    pairs = [_pair(first, second, named) for first, second in combinations(named, 2)]
    adjusted = holm([pair.p_value for pair in pairs])
    return tuple(replace(pair, adjusted=value) for pair, value in zip(pairs, adjusted, strict=True))


def _pair(first: str, second: str, named: Mapping[str, Mapping[TaskKey, TaskOutcome]]) -> PairedTest:
    shared = [
        (task, named[second][key])
        for key, task in named[first].items()
        if task.episodes and key in named[second] and named[second][key].episodes
    ]
    rates = [(one.successes / one.episodes, two.successes / two.episodes) for one, two in shared]
    wins = sum(two > one for one, two in rates)
    losses = sum(two < one for one, two in rates)
    single = all(one.episodes == two.episodes == 1 for one, two in shared)
    change = compare_rates(np.array(rates, dtype=np.float64))
    p_value = sign_test(wins, losses)
    return PairedTest(
        first=first,
        second=second,
        tasks=change.tasks,
        difference=change.difference,
        interval=change.interval,
        wins=wins,
        losses=losses,
        test="McNemar" if single else "sign test",
        p_value=p_value,
        adjusted=p_value,
    )


def _text(key: TaskKey) -> str:
    return "/".join(filter(None, key))
