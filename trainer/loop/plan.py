"""Assign steps to stages: the warm start's steps come first, then reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.types import Objective

if TYPE_CHECKING:
    from trainer.config import OptimizerConfig, WarmStartConfig


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
        """Number of steps."""
        return self.last - self.first

    def local(self, step: int) -> int:
        """Return the step as counted by the stage, from 0."""
        return step - self.first


@dataclass(frozen=True, slots=True)
class StagePlan:
    """All stages of a run."""

    stages: tuple[Stage, ...]

    @property
    def total(self) -> int:
        """Number of steps of the whole run."""
        return self.stages[-1].last

    def from_step(self, step: int) -> tuple[Stage, ...]:
        """Return the stages with remaining steps, the current one first."""
        return tuple(stage for stage in self.stages if stage.last > step)


def plan_of(warm_start: WarmStartConfig | None, steps: int, optimizer: OptimizerConfig) -> StagePlan:
    """Return the stages of a run: its warm start, then ``steps`` steps with this optimizer."""
    stages: list[Stage] = []
    first = 0
    if warm_start is not None and warm_start.steps:
        first = warm_start.steps
        stages.append(Stage(0, Objective.SFT, 0, first, warm_start.optimizer))
    if steps:
        stages.append(Stage(len(stages), Objective.REINFORCE, first, first + steps, optimizer))
    return StagePlan(tuple(stages))
