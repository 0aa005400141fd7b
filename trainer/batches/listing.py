"""List the tasks of a run, which the journal keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainer.tasks.catalog import difficulties, list_tasks

from .events import TasksListed

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainer.config import EvaluationConfig, TasksConfig
    from trainer.tasks.catalog import TaskService
    from trainer.types import TaskRef


async def list_run(
    service: TaskService,
    tasks: TasksConfig,
    held: EvaluationConfig,
    params: Mapping[str, JsonValue] | None = None,
) -> TasksListed:
    """Return training and held-out tasks; with their difficulties if the curriculum needs them.

    Raises DataError when there are none, ServiceUnavailable when the service does not answer.
    """
    trained = await list_tasks(service, tasks.environment, tasks.splits, tasks.limit)
    if tasks.curriculum.kind == "levels":
        trained = await difficulties(service, trained, params)
    if not held.splits:
        return TasksListed(trained)
    held_out: list[TaskRef] = []
    for environment, splits in held.splits_by_environment(tasks.environment).items():
        held_out += await list_tasks(service, environment, splits, held.limit)
    return TasksListed(trained, tuple(held_out))
