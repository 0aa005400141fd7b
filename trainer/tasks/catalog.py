"""List the tasks of the splits that a run configures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from sandbox_client.errors import SandboxError, TaskError
from trainer.errors import DataError, ServiceUnavailable
from trainer.types import TaskRef

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.episodes import CreateInstanceResult, EnvProfile, ReleaseInstanceResult


_AT_ONCE = 16
"""Concurrent requests for difficulties of tasks."""


class TaskService(Protocol):
    """The part of the service's client that listing tasks needs."""

    async def get_env_profile(
        self, environment: str, split: str | None = None, *, offset: int = 0, limit: int | None = None
    ) -> EnvProfile:
        """Return the profile with the ids of a split's tasks."""
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
    """List the tasks of the splits in their order, of the default split without any.

    A ``limit`` is divided equally among the splits, and what a short one leaves goes to the others; each has
    its first tasks.

    Raises DataError when there are none, the service does not have a split, or the limit has no task for each
    of them; ServiceUnavailable when the service does not answer.
    """
    if limit is not None and limit < max(1, len(splits)):
        raise DataError(
            f"a limit of {limit} tasks cannot be divided among the splits of {environment} "
            f"({', '.join(splits) or 'the default one'}): raise it to {max(1, len(splits))} or more, or name "
            "fewer splits"
        )
    listed: list[list[TaskRef]] = []
    try:
        for split in splits or (None,):
            profile = await service.get_env_profile(environment, split, limit=limit)
            listed.append([TaskRef(environment, profile.split, task_id) for task_id in profile.task_ids])
    except ConnectionError as error:
        raise ServiceUnavailable(f"cannot list the tasks of {environment}: {error}") from error
    except SandboxError as error:
        raise DataError(f"cannot list the tasks of {environment}: {error}") from error
    if not any(listed):
        raise DataError(f"{environment} has no tasks in {', '.join(splits) or 'its default split'}")
    shares = _divided([len(tasks) for tasks in listed], limit)
    return tuple(chain.from_iterable(tasks[:share] for tasks, share in zip(listed, shares, strict=True)))


def _divided(sizes: Sequence[int], limit: int | None) -> list[int]:
    """Return how many tasks of each split are taken, if they are taken one of each in turn."""
    turns = sorted((turn, place) for place, size in enumerate(sizes) for turn in range(size))
    taken = Counter(place for _, place in turns[:limit])
    return [taken[place] for place in range(len(sizes))]


async def difficulties(
    service: TaskService, tasks: Sequence[TaskRef], params: Mapping[str, JsonValue] | None = None
) -> tuple[TaskRef, ...]:
    """Return the tasks with their difficulty, for which one instance of each is created and released.

    The difficulty of broken tasks stays unknown. Raises ServiceUnavailable when the service fails otherwise.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def with_difficulty(task: TaskRef) -> TaskRef:
        async with room:
            try:
                created = await service.create_instance(task.environment, task.task_id, params=params)
                await service.release_instance(created.instance_id)
            except TaskError:
                return task
            except SandboxError as error:
                raise ServiceUnavailable(f"cannot read the difficulty of {task.task_id}: {error}") from error
        return replace(task, difficulty=str(created.info.get("difficulty") or ""))

    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(with_difficulty(task)) for task in tasks]
    except* ServiceUnavailable as errors:
        failed = errors.exceptions[0]
    else:
        return tuple(task.result() for task in asked)
    raise failed
