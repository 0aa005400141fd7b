"""Curricula: samplers that adapt to success, by level or by task, and a growing limit of turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import DataError

from .returned import ReturnedTasks
from .sampler import Cycle, Sampler, ShuffleSampler

if TYPE_CHECKING:
    from trainer.config import CurriculumConfig, HorizonConfig
    from trainer.types import GroupSpec, TaskRef


_MEMORY = 0.7
"""Weight of a task's former success estimate when it is played again."""
_LEAST_WEIGHT = 1e-3
"""Added to a task's weight, at most 1, so that each is sampled again some time."""


class LevelSampler:
    """Samples easy tasks until they succeed, then harder ones, mixed with some earlier ones.

    Tasks of a difficulty that is not a configured level belong to the last level. A level whose tasks are all
    banned counts as passed.
    """

    def __init__(self, tasks: Sequence[TaskRef], config: CurriculumConfig, seed: int) -> None:
        self._config = config
        self._seed = seed
        named = {name: [t for t in tasks if t.difficulty == name] for name in config.levels}
        named[config.levels[-1]] = [t for t in tasks if t.difficulty not in config.levels[:-1]]
        levels = [(name, of_level) for name, of_level in named.items() if of_level]
        self._names = [name for name, _ in levels]
        self._cycles = [Cycle(of_level, seed, salt) for salt, (_, of_level) in enumerate(levels, start=1)]
        self._level_of = {task: level for level, (_, of_level) in enumerate(levels) for task in of_level}
        self._recent = [deque[bool](maxlen=config.window) for _ in levels]
        self._open = 0
        self._returned = ReturnedTasks(len(tasks))
        self._banned: set[TaskRef] = set()

    def draw(self, index: int, step: int = 0) -> TaskRef:
        return self._next(index)[0]

    def issued(self, spec: GroupSpec) -> None:
        _, level, position = self._next(spec.index)
        if not self._returned.issue():
            self._cycles[level].advance(position)

    def group_ended(self, task: TaskRef, successes: Sequence[bool]) -> None:
        self._returned.note_played(task)
        self._recent[self._level_of[task]].extend(successes)
        if self._succeeded():
            self._open_next()

    def put_back(self, task: TaskRef) -> None:
        if task not in self._banned:
            self._returned.put_back(task)

    def ban(self, task: TaskRef) -> None:
        self._banned.add(task)
        self._returned.remove(task)
        if self._cycles[self._open].next(self._banned) is None:
            self._open_next()

    def sampling_metrics(self) -> dict[str, float]:
        success = {
            f"curriculum/success/{name}": sum(recent) / len(recent)
            for name, recent in zip(self._names, self._recent, strict=True)
            if recent
        }
        return {"curriculum/level": float(self._open), "tasks/banned": float(len(self._banned)), **success}

    def _succeeded(self) -> bool:
        """Return whether the latest episodes of the open level pass it."""
        recent = self._recent[self._open]
        full = len(recent) == self._config.window
        return full and sum(recent) >= self._config.threshold * len(recent)

    def _open_next(self) -> None:
        """Open the next level that has a task, if there is one."""
        for level in range(self._open + 1, len(self._cycles)):
            if self._cycles[level].next(self._banned) is not None:
                self._open = level
                return

    def _next(self, index: int) -> tuple[TaskRef, int, int]:
        returned = self._returned.due()
        if returned is not None:
            return returned, 0, 0
        random = np.random.default_rng([self._seed, 1, index])
        level = self._open
        if level > 0 and random.random() < self._config.earlier:
            level = int(random.integers(level))
        others = [other for other in range(len(self._cycles)) if other != level]
        # A task that waits is passed over, unless there is no other.
        for but in (self._banned | self._returned.waiting, self._banned):
            for candidate in (level, *others):
                found = self._cycles[candidate].next(but)
                if found is not None:
                    return found[0], candidate, found[1]
        raise DataError("no task is left to train on: all are broken")


class AdaptiveSampler:
    """Samples tasks whose success is near the target more often; unplayed tasks count as near it.

    A task is not sampled again while a group of it is in progress, unless there is no other. Each loss of a
    group in a row halves the weight of its task, down to that of a task that is far from the target: one
    whose sandbox always fails would otherwise stay near it while all others move away.
    """

    def __init__(self, tasks: Sequence[TaskRef], config: CurriculumConfig, seed: int) -> None:
        self._config = config
        self._seed = seed
        self._tasks = tuple(tasks)
        self._place = {task: place for place, task in enumerate(self._tasks)}
        self._success = np.full(len(self._tasks), config.target)
        self._playing = np.zeros(len(self._tasks), dtype=np.int64)
        self._losses = np.zeros(len(self._tasks), dtype=np.int64)
        """Lost groups in a row."""
        self._banned = np.zeros(len(self._tasks), dtype=np.bool_)
        self._played = 0

    def draw(self, index: int, step: int = 0) -> TaskRef:
        free = ~self._banned & (self._playing == 0)
        if not free.any():
            free = ~self._banned
        if not free.any():
            raise DataError("no task is left to train on: all are broken")
        random = np.random.default_rng([self._seed, 2, index])
        weights = free.astype(np.float64)
        if random.random() >= self._config.exploration:
            far = max(self._config.target, 1 - self._config.target)
            near = 1 - np.abs(self._success - self._config.target) / far
            weights *= near * 0.5**self._losses + _LEAST_WEIGHT
        return self._tasks[int(random.choice(len(self._tasks), p=weights / weights.sum()))]

    def issued(self, spec: GroupSpec) -> None:
        self._playing[self._place[spec.task]] += 1

    def group_ended(self, task: TaskRef, successes: Sequence[bool]) -> None:
        place = self._place[task]
        self._playing[place] -= 1
        self._losses[place] = 0
        if successes:
            self._played += 1
            now = sum(successes) / len(successes)
            self._success[place] = _MEMORY * self._success[place] + (1 - _MEMORY) * now

    def put_back(self, task: TaskRef) -> None:
        self._playing[self._place[task]] -= 1
        self._losses[self._place[task]] += 1

    def ban(self, task: TaskRef) -> None:
        self._playing[self._place[task]] -= 1
        self._banned[self._place[task]] = True

    def sampling_metrics(self) -> dict[str, float]:
        return {
            "curriculum/played": float(self._played),
            "curriculum/success": float(self._success.mean()) if len(self._tasks) else 0.0,
            "tasks/banned": float(self._banned.sum()),
        }


_SAMPLERS: dict[str, Callable[[Sequence[TaskRef], CurriculumConfig, int], Sampler]] = {
    "shuffle": lambda tasks, config, seed: ShuffleSampler(tasks, seed),
    "levels": LevelSampler,
    "adaptive": AdaptiveSampler,
}


def make_sampler(tasks: Sequence[TaskRef], config: CurriculumConfig, seed: int) -> Sampler:
    """Return the sampler of the tasks of one source. Raises DataError when there are no tasks."""
    if not tasks:
        raise DataError("there are no tasks to train on; check tasks.splits and tasks.limit")
    return _SAMPLERS[config.kind](tasks, config, seed)


def horizon(config: HorizonConfig | None, step: int, bound: int) -> int:
    """Return the limit of turns of an episode that begins at a step, at most ``bound``.

    It grows with the steps (AgentGym-RL, Xi et al. 2025).
    """
    if config is None:
        return bound
    return min(bound, config.first + config.add * (step // config.every))
