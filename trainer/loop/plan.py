"""Which step is for what: the warm start's steps come first, then reinforcement learning's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.types import Objective

if TYPE_CHECKING:
    from trainer.config import OptimizerConfig, RunConfig

__all__ = ["Plan", "Stage", "plan_of"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps ``[first, last)`` with one objective and one optimizer."""

    index: int
    objective: Objective
    first: int
    last: int
    optimizer: OptimizerConfig

    @property
    def steps(self) -> int:
        """How many."""
        return self.last - self.first

    def local(self, step: int) -> int:
        """The step as the stage counts it, from 0."""
        return step - self.first


@dataclass(frozen=True, slots=True)
class Plan:
    """All stages of a run."""

    stages: tuple[Stage, ...]

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.stages[-1].last

    def from_step(self, step: int) -> tuple[Stage, ...]:
        """The stages with steps left, the one under way first."""
        return tuple(stage for stage in self.stages if stage.last > step)


def plan_of(config: RunConfig) -> Plan:
    """The stages that a run's configuration asks for."""
    stages: list[Stage] = []
    first = 0
    if config.warm_start is not None and config.warm_start.steps:
        first = config.warm_start.steps
        stages.append(Stage(0, Objective.IMITATE, 0, first, config.warm_start.optimizer))
    if config.steps:
        optimizer = config.learner.optimizer
        stages.append(Stage(len(stages), Objective.REINFORCE, first, first + config.steps, optimizer))
    return Plan(tuple(stages))
