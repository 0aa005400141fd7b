"""Keys by which tasks of several evaluations are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .results import EvaluationResult, TaskOutcome


TaskKey: TypeAlias = tuple[str, str, str, str]
"""Source, environment, split and id of a task."""


def task_keys(results: Iterable[EvaluationResult]) -> list[list[TaskKey]]:
    """Return the keys of the tasks of each evaluation, in order.

    The source is empty unless it sets two tasks of one evaluation apart, as where two sources of one
    environment have other parameters: otherwise runs that name their sources differently, or have none, would
    share no task. Files of earlier versions name environment and split once for all tasks.
    """
    every = [[_key(task, result) for task in result.tasks] for result in results]
    if all(len({key[1:] for key in keys}) == len(keys) for keys in every):
        return [[("", *key[1:]) for key in keys] for keys in every]
    return every


def tasks_by_key(results: Sequence[EvaluationResult]) -> list[dict[TaskKey, TaskOutcome]]:
    """Return the tasks of each evaluation by their keys, in order."""
    found = zip(task_keys(results), results, strict=True)
    return [dict(zip(keys, result.tasks, strict=True)) for keys, result in found]


def _key(task: TaskOutcome, result: EvaluationResult) -> TaskKey:
    return task.source, task.environment or result.environment, task.split or result.split, task.task_id
