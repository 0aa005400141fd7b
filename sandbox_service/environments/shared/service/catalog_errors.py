"""The errors of a catalog that is asked for a split or a task that it does not have."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError


def unknown_split(environment: str, split: str, known: Iterable[str]) -> ServiceError:
    """Return the error for a split that is not among the known ones."""
    detail = f"{environment} has no split {split!r}; there are: {', '.join(known)}"
    return ServiceError(ErrorCode.UNKNOWN_SPLIT, detail)


def unknown_task(environment: str, task_id: str, reason: str = "") -> ServiceError:
    """Return the error for a task that there is not; ``reason`` says why no task has this id."""
    detail = f"{environment} has no task {task_id!r}"
    return ServiceError(ErrorCode.UNKNOWN_TASK, f"{detail}: {reason}" if reason else detail)
