"""List the tasks of a run, which the journal keeps."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from trainer.tasks.catalog import difficulties, list_tasks
from trainer.tasks.create_params import create_params

from .events import TasksListed

if TYPE_CHECKING:
    from trainer.config import EvaluationConfig, RolloutConfig, TasksConfig
    from trainer.tasks.catalog import TaskService
    from trainer.types import TaskRef


async def list_run(
    service: TaskService,
    tasks: TasksConfig,
    held: EvaluationConfig,
    rollout: RolloutConfig,
) -> TasksListed:
    """Return training and held-out tasks of all sources; with difficulties if the curriculum needs them.

    Raises DataError when there are none, ServiceUnavailable when the service does not answer.
    """
    if not tasks.sources:
        trained = await list_tasks(service, tasks.environment, tasks.splits, tasks.limit)
        if tasks.curriculum.kind == "levels":
            trained = await difficulties(service, trained, create_params(rollout, tasks, ""))
        apart = [
            await list_tasks(service, environment, splits, held.limit)
            for environment, splits in held.splits_by_environment(tasks.environment).items()
        ]
        return TasksListed(trained, tuple(chain.from_iterable(apart)))
    listed: list[TaskRef] = []
    held_out: list[TaskRef] = []
    for source in tasks.sources:
        mine = await list_tasks(service, source.environment, source.splits, source.limit)
        if tasks.curriculum.kind == "levels":
            mine = await difficulties(service, mine, create_params(rollout, tasks, source.key))
        listed += [replace(task, source=source.key) for task in mine]
        if source.held_out:
            others = await list_tasks(service, source.environment, source.held_out, held.limit)
            held_out += [replace(task, source=source.key) for task in others]
    return TasksListed(tuple(listed), tuple(held_out))
