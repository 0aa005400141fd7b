"""Sample tasks: every task once an epoch, in a seeded order.

A sampler is a fold over events: two samplers that received the same events sample the same tasks, so that a
resumed run continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trainer.errors import DataError

from .returned import ReturnedTasks

if TYPE_CHECKING:
    from trainer.types import GroupSpec, TaskRef


class Sampler(Protocol):
    """Samples tasks, and adapts to the results of their groups."""

    def draw(self, index: int, step: int = 0) -> TaskRef:
        """Return the task of the group with this index for a step, without side effects.

        Raises DataError when no task is left.
        """
        ...

    def issued(self, spec: GroupSpec) -> None:
        """Record that the group sampled last will be played."""
        ...

    def group_ended(self, task: TaskRef, successes: Sequence[bool]) -> None:
        """Record a played group; one entry for each episode with a score."""
        ...

    def put_back(self, task: TaskRef) -> None:
        """Record that a group of the task was lost: it comes again, later after each loss in a row."""
        ...

    def ban(self, task: TaskRef) -> None:
        """Exclude a broken task."""
        ...

    def sampling_metrics(self) -> dict[str, float]:
        """Return metrics."""
        ...


class Cycle:
    """Tasks in a seeded order, a different one each epoch."""

    def __init__(self, tasks: Sequence[TaskRef], seed: int, salt: int = 0) -> None:
        self._tasks = tuple(tasks)
        self._seed = (seed, salt)
        self._position = 0
        self._order: tuple[int, tuple[int, ...]] = (-1, ())

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def next(self, banned: set[TaskRef]) -> tuple[TaskRef, int] | None:
        """Return the next task and the position after it; None when all are banned."""
        for position in range(self._position, self._position + 2 * len(self._tasks)):
            task = self._at(position)
            if task not in banned:
                return task, position + 1
        return None

    def advance(self, position: int) -> None:
        """Move to a position that ``next`` returned."""
        self._position = position

    @property
    def epoch(self) -> float:
        """Number of the epoch, from 0."""
        return self._position / max(1, len(self._tasks))

    def _at(self, position: int) -> TaskRef:
        epoch, place = divmod(position, len(self._tasks))
        if self._order[0] != epoch:
            order = np.random.default_rng([*self._seed, epoch]).permutation(len(self._tasks))
            self._order = (epoch, tuple(int(item) for item in order))
        return self._tasks[self._order[1][place]]


class ShuffleSampler:
    """Samples every task once an epoch; tasks that were put back come before others."""

    def __init__(self, tasks: Sequence[TaskRef], seed: int) -> None:
        self._cycle = Cycle(tasks, seed)
        self._returned = ReturnedTasks(len(tasks))
        self._banned: set[TaskRef] = set()

    def draw(self, index: int, step: int = 0) -> TaskRef:
        return self._next()[0]

    def issued(self, spec: GroupSpec) -> None:
        _, position = self._next()
        if not self._returned.issue():
            self._cycle.advance(position)

    def group_ended(self, task: TaskRef, successes: Sequence[bool]) -> None:
        self._returned.note_played(task)

    def put_back(self, task: TaskRef) -> None:
        if task not in self._banned:
            self._returned.put_back(task)

    def ban(self, task: TaskRef) -> None:
        self._banned.add(task)
        self._returned.remove(task)

    def sampling_metrics(self) -> dict[str, float]:
        return {"tasks/epoch": self._cycle.epoch, "tasks/banned": float(len(self._banned))}

    def _next(self) -> tuple[TaskRef, int]:
        returned = self._returned.due()
        if returned is not None:
            return returned, 0
        # A task that waits is passed over, unless there is no other.
        for but in (self._banned | self._returned.waiting, self._banned):
            found = self._cycle.next(but) if self._cycle else None
            if found is not None:
                return found
        raise DataError("no task is left to train on: all are broken")
