"""The tasks of the splits that a run names, as the service knows them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sandbox_client.errors import SandboxError, TaskError
from trainer.errors import DataError, ServiceUnavailable
from trainer.types import TaskRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from sandbox_contract.episodes import CreateInstanceResult, EnvProfile, ReleaseInstanceResult

__all__ = ["TaskService", "difficulties", "list_tasks"]

_AT_ONCE = 16
"""Tasks whose difficulty is asked for at a time."""


class TaskService(Protocol):
    """What of the service's client is needed to know tasks."""

    async def get_env_profile(
        self, environment: str, split: str | None = None, *, offset: int = 0, limit: int | None = None
    ) -> EnvProfile:
        """The ids of a split's tasks."""
        ...

    async def create_instance(
        self,
        environment: str,
        task_id: str,
        *,
        params: Mapping[str, JsonValue] | None = None,
    ) -> CreateInstanceResult:
        """Start an episode."""
        ...

    async def release_instance(self, instance_id: str) -> ReleaseInstanceResult:
        """End it."""
        ...


async def list_tasks(
    service: TaskService, environment: str, splits: Sequence[str], limit: int | None = None
) -> tuple[TaskRef, ...]:
    """The tasks of the splits in their order, of the default split when none is named.

    Raises DataError when there are none or the service does not know a split, ServiceUnavailable when it
    does not answer.
    """
    tasks: list[TaskRef] = []
    try:
        for split in splits or (None,):
            left = None if limit is None else limit - len(tasks)
            if left == 0:
                break
            profile = await service.get_env_profile(environment, split, limit=left)
            tasks += [TaskRef(environment, profile.split, task_id) for task_id in profile.task_ids]
    except ConnectionError as error:
        raise ServiceUnavailable(f"the tasks of {environment} cannot be listed: {error}") from error
    except SandboxError as error:
        raise DataError(f"the tasks of {environment} cannot be listed: {error}") from error
    if not tasks:
        raise DataError(f"{environment} has no tasks in {', '.join(splits) or 'its default split'}")
    return tuple(tasks)


async def difficulties(
    service: TaskService, tasks: Sequence[TaskRef], params: Mapping[str, JsonValue] | None = None
) -> tuple[TaskRef, ...]:
    """The tasks with their difficulty, which only an instance tells: one is begun of each, and released.

    Broken tasks keep theirs unknown. Raises ServiceUnavailable when the service fails otherwise.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def told(task: TaskRef) -> TaskRef:
        async with room:
            try:
                created = await service.create_instance(task.environment, task.task_id, params=params)
                await service.release_instance(created.instance_id)
            except TaskError:
                return task
            except SandboxError as error:
                raise ServiceUnavailable(f"{task.task_id} does not tell its difficulty: {error}") from error
        return replace(task, difficulty=str(created.info.get("difficulty") or ""))

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(told(task)) for task in tasks]
    except* ServiceUnavailable as errors:
        failed = errors.exceptions[0]
    else:
        return tuple(task.result() for task in asked)
    raise failed
